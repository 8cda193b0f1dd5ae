"""The batch that a claim's handler is being given, and how far it has come in it.

To take a message is to advance the iterator `left`, and nothing else: it holds those that may be taken before the clock
is looked at. So how many are taken is found out from what is left in it. A pause sets the batch aside as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import length_hint

import attrs

from sarameya.message_batch import MessageBatch
from sarameya.model import Message


class PresentBatch:
    """One claim's, which may be none."""

    __slots__ = ("_aside", "_batch", "_from", "_messages", "_until", "_whole_from", "left")

    def __init__(self) -> None:
        self._batch: MessageBatch | None = None
        self._messages: Sequence[Message] = ()
        # Where the messages that are laid ready begin, and end.
        self._from = self._until = 0
        # The first of the messages that were taken all at once, as a batch.
        self._whole_from = -1
        self.left: Iterator[Message] = iter(())
        """Messages that may be taken in the present time slice."""
        # While paused: the batch, its messages, and how many of them are taken.
        self._aside: tuple[MessageBatch | None, Sequence[Message], int] = (None, (), 0)

    @property
    def taken(self) -> int:
        """How many of its messages are taken."""
        return self._until - length_hint(self.left)

    @property
    def is_taken(self) -> bool:
        """Whether there is nothing left to take, or no batch."""
        return self._until - length_hint(self.left) >= len(self._messages)

    def position(self, behind: int) -> int:
        """The next offset to be taken; `behind` where nothing is taken of it yet. Any thread may ask."""
        # Each is read once, what is taken last: the claim may go on meanwhile.
        batch, messages = self._batch, self._messages
        taken = self.taken
        if batch is None or not taken:
            return behind
        if taken >= len(messages):
            return batch.next_offset
        return messages[taken - 1].offset + 1

    def from_offset(self, reached: int) -> int:
        """Where the range of what comes next begins, of what is set aside, too; `reached` where there is no batch."""
        batch, messages, taken = (
            self._aside if self._aside[0] is not None else (self._batch, self._messages, self.taken)
        )
        if batch is None:
            return reached
        if not taken:
            return batch.from_offset
        return messages[taken - 1].offset + 1 if taken < len(messages) else batch.next_offset

    @property
    def last_given(self) -> tuple[int, int] | None:
        """The offsets of the first and the last message that were taken last; None where no batch has any taken."""
        messages, taken = self._messages, self.taken
        if not 0 < taken <= len(messages):
            return None
        last = messages[taken - 1].offset
        return (last if self._whole_from < 0 else self._whole_from), last

    def begin(self, batch: MessageBatch) -> None:
        """This one is next, all of it; nothing of it is laid ready."""
        self._batch, self._messages, self._whole_from = batch, batch.messages, -1

    def clear(self) -> None:
        """There is none; what is set aside stays so."""
        self._batch, self._messages = None, ()
        self._lay_nothing_ready(0)

    def lay_ready(self, most: int) -> None:
        """Put at most `most` of the messages that are not taken into `left`, but at least one."""
        taken = self._until - length_hint(self.left)
        self._whole_from = -1
        self._from, self._until = taken, min(taken + max(most, 1), len(self._messages))
        messages = self._messages[taken : self._until]
        self.left = iter(messages if isinstance(messages, list) else list(messages))

    def count_taken(self) -> int:
        """How many have been taken since this was last counted."""
        before, self._from = self._from, self._until - length_hint(self.left)
        return self._from - before

    def take_rest(self) -> MessageBatch:
        """What is left of it, all of which is taken by this."""
        batch, taken = self._batch, self.taken
        assert batch is not None
        self._until = len(self._messages)
        self._whole_from = self._messages[taken].offset
        self.left = iter(())
        if not taken:
            return batch
        rest, begins = batch.messages[taken:], batch.messages[taken - 1].offset + 1
        return attrs.evolve(batch, messages=rest, from_offset=begins)

    def set_aside(self) -> None:
        """Hold it back as it stands."""
        self._aside = (self._batch, self._messages, self.taken)
        self.clear()

    def take_up(self) -> None:
        """Go on exactly there; nothing is laid ready."""
        self._batch, self._messages, taken = self._aside
        self._lay_nothing_ready(taken)
        self._aside = (None, (), 0)

    def drop(self) -> None:
        """Nothing of it is wanted any more, of what is set aside neither."""
        self.clear()
        self._aside = (None, (), 0)

    def _lay_nothing_ready(self, taken: int) -> None:
        self._from = self._until = taken
        self.left = iter(())
