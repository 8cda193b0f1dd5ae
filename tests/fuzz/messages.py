"""Random messages that fit kafka-python's schemas: for each API and version, with all fields of the schema."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

from kafka.protocol.api_header import RequestHeader

import sarameya.protocol.schemas  # registers the messages that kafka-python lacks
from sarameya.embedded.apis import MESSAGES, SERVED_VERSIONS
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.versions import CLIENT_VERSIONS, Api

ANSWERS: list[tuple[Api, int]] = [
    (api, v) for api, (low, high) in CLIENT_VERSIONS.items() for v in range(low, high + 1)
]
"""API and version of all responses that the client may receive."""
REQUESTS: list[tuple[Api, int]] = [
    (api, v) for api, (low, high) in SERVED_VERSIONS.items() for v in range(low, high + 1)
]
"""API and version of all requests that the embedded broker serves."""

CLIENT_MESSAGES: dict[Api, Any] = {
    **{api: message for api, message in MESSAGES.items() if api in CLIENT_VERSIONS},
    Api.CONSUMER_GROUP_DESCRIBE: sarameya.protocol.schemas.ConsumerGroupDescribeRequest,
}

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_STRINGS = ("", "g", "orders", "größe", "range", "consumer", "x" * 200)
_BYTES = (
    b"",
    b"\0",
    b"\xff\xfe",
    bytes(300),
    *(
        build([(0, b"k", b"v", (("h", b"x"),))], transactional=t, producer_id=3, producer_epoch=1, base_sequence=0)
        for t in (False, True)
    ),
)


def answer_class(api: Api, version: int) -> Any:
    return RequestHeader(request_api_key=api, request_api_version=version).get_response_class()[None]


def client_request(api: Api, version: int) -> Any:
    """Return a request that the client may send."""
    message = CLIENT_MESSAGES[api]
    return made_up(Random(0), message, version)


def request_class(api: Api, version: int) -> Any:
    return MESSAGES[api]


def made_up(rng: Random, message: Any, version: int) -> Any:
    """Return a random message of the class: mostly small numbers, sometimes the largest, sometimes null if allowed."""
    return _struct(rng, message._struct, message, version)


def _struct(rng: Random, struct: Any, data_class: Any, version: int) -> Any:
    fields = list(struct.untagged_fields(version))
    fields += [field for field in struct.tagged_fields(version)._tags.values() if rng.random() < 0.5]
    return data_class(version=version, **{field.name: _value(rng, field, version) for field in fields})


def _value(rng: Random, field: Any, version: int) -> Any:
    if field.nullable_for_version_q(version) and rng.random() < 0.2:
        return None
    if field.is_struct_array():
        return [_struct(rng, field.array_of, field.data_class, version) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if field.is_struct():
        return _struct(rng, field, field.data_class, version)
    if field.is_array():
        return [_simple(rng, field.array_of.type_str) for _ in range(rng.choice((0, 1, 2, 5)))]
    return _simple(rng, field.type_str)


def _simple(rng: Random, kind: str) -> Any:
    match kind:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(_STRINGS)
        case "bytes" | "records":
            return rng.choice(_BYTES)
        case "uuid":
            return rng.choice((None, uuid.UUID(int=rng.getrandbits(128))))
        case "bitfield":
            return rng.choice((None, set(), {0, 3, 30}))
    top = 2 ** (_BITS[kind] - 1)
    return rng.choice((0, 0, 1, 2, 3, -1, top - 1, -top, rng.randrange(-top, top)))
