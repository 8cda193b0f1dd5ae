"""Requests and responses as frames: received in any chunks, and responses with missing or trailing bytes."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse, HeartbeatRequest, HeartbeatResponse
from kafka.protocol.metadata import ApiVersionsRequest

from sarameya.errors import ProtocolError
from sarameya.protocol.wire.client_wire import ClientWire

LIMIT = 1 << 16


def wire_with_pending(*requests: Any) -> ClientWire:
    wire = ClientWire("test", LIMIT)
    for request in requests:
        wire.send(request)
    return wire


def heartbeat() -> Any:
    return HeartbeatRequest[4](group_id="g", generation_id=1, member_id="m")


def fetch() -> Any:
    return FetchRequest[11](topics=[], forgotten_topics_data=[])


def framed(response: Any, correlation_id: int) -> bytes:
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(header=True, framed=True))


def fetched(records: bytes) -> Any:
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData(partition_index=0, error_code=0, high_watermark=1, records=records)
    return FetchResponse[11](error_code=0, responses=[topic(topic="t", partitions=[part])])


@given(st.lists(st.integers(1, 9), min_size=1))
def test_responses_are_the_same_for_any_chunks(sizes: list[int]) -> None:
    wire = wire_with_pending(heartbeat(), heartbeat(), heartbeat())
    data = b"".join(framed(HeartbeatResponse[4](error_code=code), code) for code in (1, 2, 3))
    responses: list[tuple[int, Any]] = []
    at = 0
    for index in range(len(data)):
        size = sizes[index % len(sizes)]
        responses += wire.receive(data[at : at + size])
        at += size
    assert [(i, response.error_code) for i, response in responses] == [(1, 1), (2, 2), (3, 3)]
    assert wire.in_flight == 0


def test_requests_are_sent_once_and_in_order() -> None:
    wire = wire_with_pending(heartbeat(), heartbeat())
    data = wire.data_to_send()
    assert data.index((1).to_bytes(4, "big") + b"\x00\x04test") < data.index((2).to_bytes(4, "big") + b"\x00\x04test")
    assert wire.data_to_send() == b""


def test_whole_response_is_decoded() -> None:
    wire = wire_with_pending(fetch())
    ((_, response),) = wire.receive(framed(fetched(b"x" * 100), 1))
    assert response.responses[0].partitions[0].records == b"x" * 100


@pytest.mark.parametrize("missing", [1, 50, 99])
def test_truncated_response_is_a_protocol_error(missing: int) -> None:
    wire = wire_with_pending(fetch())
    body = framed(fetched(b"x" * 100), 1)[4:-missing]
    with pytest.raises(ProtocolError, match="FetchResponse"):
        wire.receive(len(body).to_bytes(4, "big") + body)


def test_response_with_trailing_bytes_is_a_protocol_error() -> None:
    wire = wire_with_pending(heartbeat())
    body = framed(HeartbeatResponse[4](error_code=0), 1)[4:] + b"more"
    with pytest.raises(ProtocolError, match="bytes instead of"):
        wire.receive(len(body).to_bytes(4, "big") + body)


def test_response_received_byte_by_byte_takes_linear_time() -> None:
    """A tenth of the limit is usual. A copy of the earlier bytes for each byte takes more than twice the limit."""
    wire = ClientWire("test", 1 << 21)
    wire.send(fetch())
    data = framed(fetched(bytes(1 << 19)), 1)
    started = time.process_time()
    responses = [response for at in range(len(data)) for response in wire.receive(data[at : at + 1])]
    assert time.process_time() - started < 8
    assert len(responses[0][1].responses[0].partitions[0].records) == 1 << 19


@given(st.binary(max_size=200))
def test_random_bytes_are_a_response_or_a_protocol_error(data: bytes) -> None:
    wire = wire_with_pending(fetch(), heartbeat())
    try:
        wire.receive(data)
    except ProtocolError:
        return
    assert wire.in_flight == 2 or data


@given(st.binary(max_size=200))
def test_random_body_decodes_or_raises_a_protocol_error(body: bytes) -> None:
    wire = wire_with_pending(fetch())
    frame = (1).to_bytes(4, "big") + body
    try:
        ((correlation_id, _),) = wire.receive(len(frame).to_bytes(4, "big") + frame)
    except ProtocolError:
        return
    assert correlation_id == 1


def test_tagged_fields_in_a_header_are_skipped() -> None:
    wire = wire_with_pending(heartbeat())
    body = HeartbeatResponse[4](error_code=27).encode()
    tags = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00"  # tag 0 of three bytes, tag 129 of none
    ((_, response),) = wire.receive(struct.pack(">ii", 4 + len(tags) + len(body), 1) + tags + body)
    assert response.error_code == 27


@pytest.mark.parametrize("tags", [b"", b"\x01", b"\x01\x00\x7f", b"\xff\xff\xff\xff\xff\x01"])
def test_header_with_endless_tagged_fields_is_a_protocol_error(tags: bytes) -> None:
    wire = wire_with_pending(heartbeat())
    with pytest.raises(ProtocolError):
        wire.receive(struct.pack(">ii", 4 + len(tags), 1) + tags)


def test_request_has_the_bytes_of_kafka_python() -> None:
    for request in (heartbeat(), fetch(), ApiVersionsRequest[4](client_software_name="s", client_software_version="1")):
        wire = ClientWire("t\u00e9st", LIMIT)
        wire.send(request)
        request.with_header(correlation_id=1, client_id="t\u00e9st")
        assert wire.data_to_send() == bytes(request.encode(header=True, framed=True))
