"""Our decoder of bodies against kafka-python's, for every message we speak, and against whatever else bytes can be."""

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

SPOKEN = [(answer_class(api, version), version) for api, version in ANSWERS] + [
    (request_class(api, version), version) for api, version in REQUESTS
]


def kafka_python_s(message: Any, version: int, body: bytes) -> tuple[Any, int]:
    flexible = message.flexible_version_q(version)
    decode = message._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=message)
    return decode(memoryview(body), 0)


@given(spoken=st.sampled_from(SPOKEN), rng=st.randoms(use_true_random=False))
def test_every_message_is_what_kafka_python_makes_of_it(spoken: tuple[Any, int], rng: Random) -> None:
    message, version = spoken
    body = bytes(made_up(rng, message, version).encode(version=version))
    ours, end = body_decoder(message, version)(body)
    assert (ours, end) == kafka_python_s(message, version, body)
    assert type(ours) is message
    assert ours.version == version
    assert repr(ours) == repr(kafka_python_s(message, version, body)[0])


@pytest.mark.parametrize("spoken", SPOKEN, ids=lambda spoken: f"{spoken[0].__name__}-{spoken[1]}")
def test_message_cut_off_anywhere_is_no_message(spoken: tuple[Any, int]) -> None:
    message, version = spoken
    body = bytes(made_up(Random(version), message, version).encode(version=version))
    decode = body_decoder(message, version)
    for length in range(len(body)):
        with pytest.raises(ValueError):
            decode(body[:length])
    assert decode(body + b"more")[1] == len(body)


@given(spoken=st.sampled_from(SPOKEN), body=st.binary(max_size=100))
def test_any_bytes_are_a_message_or_a_value_error(spoken: tuple[Any, int], body: bytes) -> None:
    message, version = spoken
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
def test_varint_too_long_or_cut_short_is_refused(varint: bytes) -> None:
    with pytest.raises(ValueError):
        body_decoder(MetadataResponse, 12)(b"\0\0\0\0" + varint + bytes(50))


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, 1000])
def test_impossible_count_is_refused_by_field_name(count: int) -> None:
    with pytest.raises(ValueError, match=f"brokers: {count} announced"):
        body_decoder(MetadataResponse, 1)(count.to_bytes(4, "big", signed=True) + bytes(100))


def test_null_is_accepted_only_where_the_schema_has_it() -> None:
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
def test_tagged_field_of_another_size_than_it_says_is_refused(tags: bytes) -> None:
    untagged = bytes(ApiVersionsResponse(version=3, error_code=0, api_keys=[], throttle_time_ms=0).encode())[:-1]
    with pytest.raises(ValueError):
        body_decoder(ApiVersionsResponse, 3)(untagged + tags)


# -- what it costs -----------------------------------------------------------------------------------------

MEGABYTE = 2**20
MANY = 2**16

HOSTILE = {
    "a varint that does not end": (MetadataResponse, 12, b"\0\0\0\0" + b"\xff" * MEGABYTE),
    "one of zeros": (MetadataResponse, 12, b"\0\0\0\0" + b"\x80" * MEGABYTE),
    "the highest count": (MetadataResponse, 1, b"\x7f\xff\xff\xff" + bytes(MEGABYTE)),
    "tagged fields in each of many structs": (
        MetadataResponse,
        12,
        b"\0\0\0\0" + b"\x81\x80\x10" + (b"\0\0\0\0\2h\0\0\0\1\0" + b"\1\x50\0") * 4 * MANY,
    ),
    "many tagged fields": (ApiVersionsResponse, 3, b"\0\0\1\0\0\0\0" + b"\x80\x80\x04" + b"\x63\0" * MANY),
    "structs as small as can be": (FetchResponse, 12, bytes(10) + b"\x81\x80\x04" + b"\1\1\0" * MANY + b"\0"),
    "nothing but empty strings": (MetadataRequest, 4, b"\0\1\0\0" + bytes(2) * MANY + b"\1"),
}


@pytest.mark.parametrize(("message", "version", "body"), HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_bytes_and_with_nothing_they_claim(message: Any, version: int, body: bytes) -> None:
    """A tenth of it is usual; where each struct copies what is behind it, or a varint grows, it is more than that."""
    decode = body_decoder(message, version)
    started = time.process_time()
    with suppress(ValueError):
        decode(memoryview(body))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(("message", "version", "body"), HOSTILE.values(), ids=HOSTILE)
def test_memory_grows_with_the_bytes_and_with_nothing_they_claim(message: Any, version: int, body: bytes) -> None:
    """The smallest struct takes 3 bytes on the wire, and Python 170."""
    decode, body = body_decoder(message, version), body[: 2**18]
    tracemalloc.start()
    with suppress(ValueError):
        decode(memoryview(body))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 70 * len(body)
