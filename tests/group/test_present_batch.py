"""The batch that a handler reads, also from another thread than its claim's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from sarameya.group.delivery.present_batch import PresentBatch
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TimestampType

MESSAGES = [Message("t", 0, offset, 0, TimestampType.CREATE_TIME, None, None) for offset in range(10, 20)]


def present(taken: int, limit: int = 100) -> PresentBatch:
    batch = PresentBatch()
    batch.start(MessageBatch("t", 0, MESSAGES, 25, from_offset=5))
    batch.refill(limit)
    for _ in range(taken):
        next(batch.left)
    return batch


def take_at_call(batch: PresentBatch, switch: int, operation: Callable[[PresentBatch], object]) -> list[int]:
    """Run an operation. As another thread would, take a message at its call number `switch`. Return the offset."""
    calls, taken = 0, []

    def take(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            if calls == switch:
                for message in batch.left:
                    taken.append(message.offset)
                    break
            calls += 1

    sys.setprofile(take)
    try:
        operation(batch)
    finally:
        sys.setprofile(None)
    return taken


def pause(batch: PresentBatch) -> None:
    batch.set_aside()
    batch.restore()


OPERATIONS: dict[str, Callable[[PresentBatch], object]] = {
    "pause": pause,
    "refill": lambda batch: batch.refill(3),
    "position": PresentBatch.position,
}


@pytest.mark.parametrize("switch", range(16))
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_message_taken_by_another_thread_is_not_lost_or_repeated(
    operation: Callable[[PresentBatch], object], switch: int
) -> None:
    batch = present(4)
    taken = take_at_call(batch, switch, operation)
    assert taken in ([], [14])
    assert batch.position() == 14 + len(taken)
    rest = batch.take_rest()
    assert rest is not None
    assert [message.offset for message in rest] == list(range(14 + len(taken), 20))
    assert (rest.from_offset, rest.next_offset) == (14 + len(taken), 25)
    assert batch.position() == 25


def test_dropped_or_set_aside_batch_returns_no_message() -> None:
    for end in (PresentBatch.drop, PresentBatch.set_aside):
        batch = present(4)
        end(batch)
        batch.refill(100)
        assert list(batch.left) == []
        assert batch.take_rest() is None
        assert batch.position() is None


def test_whole_batch_is_taken_unchanged() -> None:
    batch = present(0)
    whole = batch.take_rest()
    assert whole is not None
    assert whole.messages is MESSAGES
    assert batch.take_rest() is None
    assert batch.last_taken == (10, 19)
