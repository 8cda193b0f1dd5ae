"""Frames are complete and in order for any chunks. Memory depends on the received bytes, not on the announced ones."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.errors import ProtocolError, ResponseTooLargeError
from sarameya.protocol.wire.frames import FrameBuffer

MEGABYTE = 2**20
LARGEST = 100 * MEGABYTE


def received(frames: FrameBuffer, data: bytes) -> list[bytes]:
    """Return the frames that the bytes complete. Each read takes as many bytes as the buffer has room for."""
    complete: list[bytes] = []
    while data:
        with frames.get_buffer() as buffer:
            count = min(len(data), len(buffer))
            buffer[:count] = data[:count]
        complete += map(bytes, frames.buffer_updated(count))
        data = data[count:]
    return complete


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def room(frames: FrameBuffer) -> int:
    with frames.get_buffer() as buffer:
        return len(buffer)


def memory(frames: FrameBuffer) -> int:
    with frames.get_buffer() as buffer:
        return len(buffer.obj)  # type: ignore[arg-type]


def bodies_of(sizes: Iterable[int]) -> list[bytes]:
    return [bytes([number % 251]) * size for number, size in enumerate(sizes)]


@given(
    sizes=st.lists(st.integers(0, 50) | st.integers(0, 100_000) | st.integers(0, 2_000_000), max_size=6),
    pieces=st.lists(st.integers(1, 9) | st.integers(1, 20_000) | st.integers(1, 3_000_000), min_size=1),
)
def test_frames_are_whole_and_in_order_for_any_chunks(sizes: list[int], pieces: list[int]) -> None:
    frames = FrameBuffer(0, LARGEST)
    bodies = bodies_of(sizes)
    data = framed(*bodies)
    complete: list[bytes] = []
    index = 0
    while data and index < 200:
        piece = pieces[index % len(pieces)]
        complete += received(frames, data[:piece])
        data = data[piece:]
        index += 1
    complete += received(frames, data)
    assert complete == bodies


def test_announced_size_allocates_one_step_only():
    frames = FrameBuffer(0, LARGEST)
    assert received(frames, struct.pack(">i", LARGEST)) == []
    for _ in range(5):
        filled = memory(frames) - room(frames)
        assert memory(frames) <= max(2 * filled, filled + MEGABYTE)
        assert received(frames, bytes(room(frames))) == []
    assert memory(frames) < 20 * MEGABYTE


def test_read_stops_at_the_end_of_a_frame():
    """Then the next frame starts at the front of the buffer, and need not be moved there."""
    frames = FrameBuffer(0, LARGEST)
    received(frames, framed(bytes(4 * MEGABYTE)))
    assert received(frames, framed(bytes(MEGABYTE))[:1000]) == []
    assert room(frames) == MEGABYTE + 4 - 1000


def test_awaited_counts_the_missing_bytes_of_a_frame():
    frames = FrameBuffer(0, LARGEST)
    assert frames.awaited == 4
    data = framed(bytes(MEGABYTE), b"next")
    for at in range(3):
        received(frames, data[at : at + 1])
        assert frames.awaited == 3 - at
    received(frames, data[3:1000])
    assert frames.awaited == MEGABYTE + 4 - 1000
    received(frames, data[1000 : MEGABYTE + 4])
    assert frames.awaited == 4
    received(frames, data[MEGABYTE + 4 : -1])
    assert frames.awaited == 1


def test_buffer_is_reused_while_frames_fill_half_of_it():
    frames = FrameBuffer(0, LARGEST)
    received(frames, framed(bytes(30 * MEGABYTE)))
    with frames.get_buffer() as buffer:
        grown = buffer.obj
    received(frames, framed(bytes(20 * MEGABYTE)))
    with frames.get_buffer() as buffer:
        assert buffer.obj is grown
    received(frames, framed(bytes(100)))
    assert memory(frames) < MEGABYTE


def test_small_buffer_is_not_released():
    frames = FrameBuffer(0, LARGEST)
    received(frames, framed(bytes(4 * MEGABYTE)))
    received(frames, framed(bytes(100)))
    assert memory(frames) == 4 * MEGABYTE + 4


def test_next_frame_survives_the_release_of_the_buffer():
    frames = FrameBuffer(0, LARGEST)
    received(frames, framed(bytes(30 * MEGABYTE)))
    next_frame = framed(b"next one" * 100_000)
    assert received(frames, framed(b"small") + next_frame[:400_000]) == [b"small"]
    assert received(frames, next_frame[400_000:]) == [b"next one" * 100_000]


@pytest.mark.parametrize(
    ("size", "error"),
    [(size, ProtocolError) for size in (-(2**31), -1, 3)]
    + [(size, ResponseTooLargeError) for size in (LARGEST + 1, 2**31 - 1)],
)
def test_size_out_of_bounds_fails_after_good_frames(size: int, error: type[ProtocolError]):
    frames = FrameBuffer(4, LARGEST)
    with frames.get_buffer() as buffer:
        data = framed(b"good") + struct.pack(">i", size)
        buffer[: len(data)] = data
    updated = frames.buffer_updated(len(data))
    assert bytes(next(updated)) == b"good"
    with pytest.raises(ProtocolError, match=str(size)) as caught:
        next(updated)
    assert type(caught.value) is error
