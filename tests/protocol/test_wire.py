"""Frames in any shape, and answers that are shorter or longer than they say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse, HeartbeatRequest, HeartbeatResponse

from sarameya.errors import ProtocolError
from sarameya.protocol.wire import ClientWire

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
    with pytest.raises(ProtocolError, match="bytes were announced"):
        wire.receive(len(body).to_bytes(4, "big") + body)


@given(st.binary(max_size=200))
def test_random_bytes_are_an_answer_or_a_protocol_error(data: bytes) -> None:
    wire = wire_awaiting(fetch(), heartbeat())
    try:
        wire.receive(data)
    except ProtocolError:
        return
    assert wire.in_flight == 2 or data


@given(st.binary(max_size=200))
def test_random_body_behind_a_right_header_is_an_answer_or_a_protocol_error(body: bytes) -> None:
    wire = wire_awaiting(fetch())
    frame = (1).to_bytes(4, "big") + body
    try:
        ((correlation_id, _),) = wire.receive(len(frame).to_bytes(4, "big") + frame)
    except ProtocolError:
        return
    assert correlation_id == 1
