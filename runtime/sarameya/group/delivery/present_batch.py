"""The batch that a claim's handler is reading, and its position in that batch.

The handler takes a message only by advancing the iterator `left`. `left` has the messages that may be taken before the
next check of the clock. So the length of `left` shows how many messages were taken. A pause sets the batch aside
unchanged.

A handler may run in another thread than the claim (`sarameya.asyncio`). A lock guards everything except the iterator:
taking a message must not cost a lock. Code that must know which messages were taken, and stop further ones, replaces
`left` first (`frozen`). CPython switches threads at calls and backward jumps only, and there is none between reading
`left` and advancing it. Test: `tests/group/test_present_batch.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import length_hint

import attrs

from sarameya.message_batch import MessageBatch
from sarameya.model import Message


class PresentBatch:
    """The current batch of one claim, or none."""

    __slots__ = ("_aside", "_batch", "_from", "_lock", "_messages", "_until", "_whole_from", "left")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._batch: MessageBatch | None = None
        self._messages: Sequence[Message] = ()
        # Index of the first message in `left`, and of the one after the last.
        self._from = self._until = 0
        # Offset of the first message that was taken, if all the rest was taken at once (`take_rest`); else -1.
        self._whole_from = -1
        self.left: Iterator[Message] = iter(())
        """Messages that may be taken in the current time slice."""
        # While paused: the batch, its messages, and the number of messages taken.
        self._aside: tuple[MessageBatch | None, Sequence[Message], int] = (None, (), 0)

    @property
    def taken(self) -> int:
        """Number of messages taken from the batch."""
        with self._lock:
            return self._until - length_hint(self.left)

    @property
    def is_empty(self) -> bool:
        """True if there is no batch."""
        return self._batch is None

    @property
    def is_taken(self) -> bool:
        """True if no message is left to take, or there is no batch."""
        return self._until - length_hint(self.left) >= len(self._messages)

    def position(self) -> int | None:
        """Return the offset of the next message; None if none of the batch is taken. Any thread may call it."""
        with self._lock:
            batch, messages, taken = self._batch, self._messages, self.taken
        if batch is None or not taken:
            return None
        if taken >= len(messages):
            return batch.next_offset
        return messages[taken - 1].offset + 1

    def from_offset(self, default: int) -> int:
        """Return the start of the next offset range; `default` if there is no batch, not even one set aside."""
        with self._lock:
            batch, messages, taken = (
                self._aside if self._aside[0] is not None else (self._batch, self._messages, self.taken)
            )
        if batch is None:
            return default
        if not taken:
            return batch.from_offset
        return messages[taken - 1].offset + 1 if taken < len(messages) else batch.next_offset

    @property
    def last_taken(self) -> tuple[int, int] | None:
        """First and last offset of the messages taken last; None if none of the batch is taken."""
        with self._lock:
            messages, taken, whole_from = self._messages, self.taken, self._whole_from
        if not 0 < taken <= len(messages):
            return None
        last = messages[taken - 1].offset
        return (last if whole_from < 0 else whole_from), last

    def start(self, batch: MessageBatch) -> None:
        """Make a batch current. None of its messages may be taken before `refill`."""
        with self._lock:
            self._batch, self._messages, self._whole_from = batch, batch.messages, -1

    def clear(self) -> None:
        """Drop the batch. A batch that is set aside stays."""
        with self._lock:
            self._batch, self._messages = None, ()
            self._empty_left(0)

    def refill(self, most: int) -> None:
        """Replace `left` by the next messages: at most `most`, but at least one. Any thread may call it."""
        with self._lock:
            taken = self._freeze()
            self._whole_from = -1
            self._from, self._until = taken, min(taken + max(most, 1), len(self._messages))
            messages = self._messages[taken : self._until]
            self.left = iter(messages if isinstance(messages, list) else list(messages))

    def count_taken(self) -> int:
        """Return the number of messages taken since the last call."""
        before, self._from = self._from, self._until - length_hint(self.left)
        return self._from - before

    def take_rest(self) -> MessageBatch | None:
        """Take all remaining messages, and return them as a batch; None if there are none. Any thread may call it."""
        with self._lock:
            batch, taken = self._batch, self._freeze()
            if batch is None or taken >= len(self._messages):
                return None
            self._until = len(self._messages)
            self._whole_from = self._messages[taken].offset
        if not taken:
            return batch
        rest, from_offset = batch.messages[taken:], batch.messages[taken - 1].offset + 1
        return attrs.evolve(batch, messages=rest, from_offset=from_offset)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep other threads from taking messages for the length of the block."""
        with self._lock:
            self._freeze()
            yield

    def _freeze(self) -> int:
        """Empty `left`, and return the number of messages taken from the batch. The caller holds the lock."""
        nothing: Iterator[Message] = iter(())
        left, self.left = self.left, nothing
        self._until -= length_hint(left)
        return self._until

    def set_aside(self) -> None:
        """Set the batch aside unchanged."""
        with self._lock:
            self._aside = (self._batch, self._messages, self._freeze())
            self.clear()

    def restore(self) -> None:
        """Make the batch that was set aside current again. Its messages may be taken after `refill`."""
        with self._lock:
            self._batch, self._messages, taken = self._aside
            self._empty_left(taken)
            self._aside = (None, (), 0)

    def drop(self) -> None:
        """Drop the batch, and the one that is set aside."""
        with self._lock:
            self.clear()
            self._aside = (None, (), 0)

    def _empty_left(self, taken: int) -> None:
        self._from = self._until = taken
        self.left = iter(())
