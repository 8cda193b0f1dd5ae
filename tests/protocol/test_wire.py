"""Frames in any shape, and answers that are shorter or longer than they say."""

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


def wire_awaiting(*requests: Any) -> ClientWire:
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
def test_answers_come_out_alike_however_their_bytes_come_in(sizes: list[int]) -> None:
    wire = wire_awaiting(heartbeat(), heartbeat(), heartbeat())
    data = b"".join(framed(HeartbeatResponse[4](error_code=code), code) for code in (1, 2, 3))
    answers: list[tuple[int, Any]] = []
    at = 0
    for index in range(len(data)):
        size = sizes[index % len(sizes)]
        answers += wire.receive(data[at : at + size])
        at += size
    assert [(i, answer.error_code) for i, answer in answers] == [(1, 1), (2, 2), (3, 3)]
    assert wire.in_flight == 0


def test_requests_are_sent_once_and_in_order() -> None:
    wire = wire_awaiting(heartbeat(), heartbeat())
    data = wire.data_to_send()
    assert data.index((1).to_bytes(4, "big") + b"\x00\x04test") < data.index((2).to_bytes(4, "big") + b"\x00\x04test")
    assert wire.data_to_send() == b""


def test_whole_answer_is_decoded() -> None:
    wire = wire_awaiting(fetch())
    ((_, answer),) = wire.receive(framed(fetched(b"x" * 100), 1))
    assert answer.responses[0].partitions[0].records == b"x" * 100


@pytest.mark.parametrize("missing", [1, 50, 99])
def test_answer_shorter_than_it_says_is_a_protocol_error(missing: int) -> None:
    wire = wire_awaiting(fetch())
    body = framed(fetched(b"x" * 100), 1)[4:-missing]
    with pytest.raises(ProtocolError, match="FetchResponse"):
        wire.receive(len(body).to_bytes(4, "big") + body)


def test_answer_longer_than_it_says_is_a_protocol_error() -> None:
    wire = wire_awaiting(heartbeat())
    body = framed(HeartbeatResponse[4](error_code=0), 1)[4:] + b"more"
    with pytest.raises(ProtocolError, match="bytes instead of"):
        wire.receive(len(body).to_bytes(4, "big") + body)


def test_answer_that_comes_byte_by_byte_costs_what_its_bytes_do() -> None:
    """A tenth of it is usual; where each byte copies what came before it, it is more than twice that."""
    wire = ClientWire("test", 1 << 21)
    wire.send(fetch())
    data = framed(fetched(bytes(1 << 19)), 1)
    started = time.process_time()
    answers = [answer for at in range(len(data)) for answer in wire.receive(data[at : at + 1])]
    assert time.process_time() - started < 8
    assert len(answers[0][1].responses[0].partitions[0].records) == 1 << 19


@given(st.binary(max_size=200))
def test_random_bytes_are_an_answer_or_a_protocol_error(data: bytes) -> None:
    wire = wire_awaiting(fetch(), heartbeat())
    try:
        wire.receive(data)
    except ProtocolError:
        return
    assert wire.in_flight == 2 or data


@given(st.binary(max_size=200))
def test_random_body_decodes_or_raises_a_protocol_error(body: bytes) -> None:
    wire = wire_awaiting(fetch())
    frame = (1).to_bytes(4, "big") + body
    try:
        ((correlation_id, _),) = wire.receive(len(frame).to_bytes(4, "big") + frame)
    except ProtocolError:
        return
    assert correlation_id == 1


def test_tagged_fields_in_a_header_are_skipped() -> None:
    wire = wire_awaiting(heartbeat())
    body = HeartbeatResponse[4](error_code=27).encode()
    tags = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00"  # tag 0 of three bytes, tag 129 of none
    ((_, answer),) = wire.receive(struct.pack(">ii", 4 + len(tags) + len(body), 1) + tags + body)
    assert answer.error_code == 27


@pytest.mark.parametrize("tags", [b"", b"\x01", b"\x01\x00\x7f", b"\xff\xff\xff\xff\xff\x01"])
def test_header_with_endless_tagged_fields_is_a_protocol_error(tags: bytes) -> None:
    wire = wire_awaiting(heartbeat())
    with pytest.raises(ProtocolError):
        wire.receive(struct.pack(">ii", 4 + len(tags), 1) + tags)


def test_request_is_what_kafka_python_would_send() -> None:
    for request in (heartbeat(), fetch(), ApiVersionsRequest[4](client_software_name="s", client_software_version="1")):
        wire = ClientWire("t\u00e9st", LIMIT)
        wire.send(request)
        request.with_header(correlation_id=1, client_id="t\u00e9st")
        assert wire.data_to_send() == bytes(request.encode(header=True, framed=True))
