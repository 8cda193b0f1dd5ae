"""Our decoder of message bodies against kafka-python's, for every message of the client, and against other bytes."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from sarameya.protocol.wire.bodies import body_decoder
from tests.fuzz.messages import ANSWERS, REQUESTS, answer_class, made_up, request_class

MESSAGES = [(answer_class(api, version), version) for api, version in ANSWERS] + [
    (request_class(api, version), version) for api, version in REQUESTS
]


def decoded_by_kafka_python(message: Any, version: int, body: bytes) -> tuple[Any, int]:
    flexible = message.flexible_version_q(version)
    decode = message._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=message)
    return decode(memoryview(body), 0)


@given(message_version=st.sampled_from(MESSAGES), rng=st.randoms(use_true_random=False))
def test_decoded_message_equals_kafka_pythons(message_version: tuple[Any, int], rng: Random) -> None:
    message, version = message_version
    body = bytes(made_up(rng, message, version).encode(version=version))
    decoded, end = body_decoder(message, version)(body)
    assert (decoded, end) == decoded_by_kafka_python(message, version, body)
    assert type(decoded) is message
    assert decoded.version == version
    assert repr(decoded) == repr(decoded_by_kafka_python(message, version, body)[0])


@pytest.mark.parametrize(
    "message_version", MESSAGES, ids=lambda message_version: f"{message_version[0].__name__}-{message_version[1]}"
)
def test_truncated_message_raises_value_error(message_version: tuple[Any, int]) -> None:
    message, version = message_version
    body = bytes(made_up(Random(version), message, version).encode(version=version))
    decode = body_decoder(message, version)
    for length in range(len(body)):
        with pytest.raises(ValueError):
            decode(body[:length])
    assert decode(body + b"more")[1] == len(body)


@given(message_version=st.sampled_from(MESSAGES), body=st.binary(max_size=100))
def test_arbitrary_bytes_decode_or_raise_value_error(message_version: tuple[Any, int], body: bytes) -> None:
    message, version = message_version
    try:
        decoded, end = body_decoder(message, version)(body)
    except ValueError:
        return
    assert end <= len(body)
    assert isinstance(decoded, message)


# -- lengths and counts that lie ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "varint", [b"\xff\xff\xff\xff\xff\x01", b"\xff" * 100, b"\x80" * 100, b"\xff\xff\xff\xff\x7f", b"\xff"]
)
def test_too_long_or_truncated_varint_is_refused(varint: bytes) -> None:
    with pytest.raises(ValueError):
        body_decoder(MetadataResponse, 12)(b"\0\0\0\0" + varint + bytes(50))


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, 1000])
def test_impossible_count_is_refused_by_field_name(count: int) -> None:
    with pytest.raises(ValueError, match=f"brokers: {count} announced"):
        body_decoder(MetadataResponse, 1)(count.to_bytes(4, "big", signed=True) + bytes(100))


def test_null_is_accepted_only_where_the_schema_allows_it() -> None:
    decode = body_decoder(MetadataRequest, 1)
    assert decode(b"\xff\xff\xff\xff")[0].topics is None
    with pytest.raises(ValueError, match="name is null"):
        decode(b"\0\0\0\1\xff\xff")
    with pytest.raises(ValueError, match="brokers is null"):
        body_decoder(MetadataResponse, 1)(b"\xff\xff\xff\xff" + bytes(20))


def test_only_known_tagged_fields_are_read() -> None:
    versions = ApiVersionsResponse(version=3, error_code=0, api_keys=[], throttle_time_ms=0)
    untagged = bytes(versions.encode())[:-1]
    tags = b"\x02" + b"\x01\x08" + (7).to_bytes(8, "big") + b"\x63\x03abc"
    decoded, end = body_decoder(ApiVersionsResponse, 3)(untagged + tags)
    assert decoded.finalized_features_epoch == 7
    assert end == len(untagged + tags)


@pytest.mark.parametrize(
    "tags", [b"\x01\x01\x07" + bytes(7), b"\x01\x01\x09" + bytes(9), b"\x01\x63\x04abc", b"\x7f\x63\x00", b"\x01\x01"]
)
def test_tagged_field_with_a_wrong_size_is_refused(tags: bytes) -> None:
    untagged = bytes(ApiVersionsResponse(version=3, error_code=0, api_keys=[], throttle_time_ms=0).encode())[:-1]
    with pytest.raises(ValueError):
        body_decoder(ApiVersionsResponse, 3)(untagged + tags)


# -- cost in time and memory -------------------------------------------------------------------------------

MEGABYTE = 2**20
MANY = 2**16

HOSTILE = {
    "an endless varint of 0xff": (MetadataResponse, 12, b"\0\0\0\0" + b"\xff" * MEGABYTE),
    "an endless varint of 0x80": (MetadataResponse, 12, b"\0\0\0\0" + b"\x80" * MEGABYTE),
    "the largest count": (MetadataResponse, 1, b"\x7f\xff\xff\xff" + bytes(MEGABYTE)),
    "tagged fields in each of many structs": (
        MetadataResponse,
        12,
        b"\0\0\0\0" + b"\x81\x80\x10" + (b"\0\0\0\0\2h\0\0\0\1\0" + b"\1\x50\0") * 4 * MANY,
    ),
    "many tagged fields": (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0" + b"\x80\x80\x04" + b"\x63\0" * MANY),
    "the smallest structs": (FetchResponse, 12, bytes(10) + b"\x81\x80\x04" + b"\1\1\0" * MANY + b"\0"),
    "empty strings only": (MetadataRequest, 4, b"\0\1\0\0" + bytes(2) * MANY + b"\1"),
}


@pytest.mark.parametrize(("message", "version", "body"), HOSTILE.values(), ids=HOSTILE)
def test_decode_time_depends_on_size_not_on_claimed_counts(message: Any, version: int, body: bytes) -> None:
    """A tenth of the limit is usual. A decoder that copies the rest for each struct, or grows a varint, exceeds it."""
    decode = body_decoder(message, version)
    started = time.process_time()
    with suppress(ValueError):
        decode(memoryview(body))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(("message", "version", "body"), HOSTILE.values(), ids=HOSTILE)
def test_decode_memory_depends_on_size_not_on_claimed_counts(message: Any, version: int, body: bytes) -> None:
    """The smallest struct takes 3 bytes on the wire and 170 in Python."""
    decode, body = body_decoder(message, version), body[: 2**18]
    tracemalloc.start()
    with suppress(ValueError):
        decode(memoryview(body))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 70 * len(body)
