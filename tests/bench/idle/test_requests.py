"""Kafka requests counted in a byte stream."""

from __future__ import annotations

import struct

import pytest

from bench.idle.requests import FETCH, RequestReader, Traffic


def request(key: int, rest: bytes = b"") -> bytes:
    return struct.pack(">ih", 2 + len(rest), key) + rest


STREAM = request(18) + request(FETCH, b"x" * 300) + request(12, b"\0" * 5) + request(FETCH)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 300, 1000])
def test_requests_are_counted_for_any_size_of_chunk(size: int) -> None:
    reader = RequestReader()
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]

    assert [key for piece in pieces for key in reader.feed(piece)] == [18, FETCH, 12, FETCH]


def test_request_is_counted_once_its_api_key_is_complete() -> None:
    reader = RequestReader()

    assert reader.feed(request(FETCH, b"xyz")[:6]) == [FETCH]
    assert reader.feed(b"xyz") == []


def test_request_shorter_than_its_api_key_is_counted() -> None:
    assert RequestReader().feed(struct.pack(">ib", 1, 0) + request(FETCH)[:1]) == [0]


def test_traffic_of_an_interval_is_the_difference() -> None:
    assert Traffic(7, 5, 700, 900) - Traffic(3, 2, 300, 400) == Traffic(4, 3, 400, 500)
