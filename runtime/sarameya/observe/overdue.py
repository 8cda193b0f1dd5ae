"""Events about handlers that hold records for too long."""

from __future__ import annotations

import attrs

from sarameya.model import TopicPartition
from sarameya.observe.events import Event
from sarameya.status import held_text, overdue_text


@attrs.frozen(slots=True)
class HandlerOverdue(Event):
    """A handler that has held the records from `offset` to `last_offset` for too long, without any progress.

    Progress means that it requests more messages, marks one, moves its landed offset, or reports an activity.

    The time counts from the moment the handler got them. The limit is ten times `Config.max_processing_time`, and at
    least 30 seconds. `stack` is the stack of its task, as `traceback` formats it; empty if too many handlers are
    overdue.
    """

    partition: TopicPartition
    offset: int
    last_offset: int
    seconds: float
    stack: str

    @property
    def headline(self) -> str:
        """The log line without the stack."""
        return overdue_text(self.partition, self.offset, self.last_offset, self.seconds)

    def __str__(self) -> str:
        return f"{self.headline}; its stack:\n{self.stack.rstrip()}" if self.stack else self.headline


@attrs.frozen(slots=True)
class HandlerReturned(Event):
    """A handler that is no longer overdue: it shows progress (see `HandlerOverdue`), or its claim has ended.

    Reported when 1.5 times the limit have passed since it was last overdue, or when its claim has ended. `seconds` is
    the time for which it held the last overdue records.
    """

    partition: TopicPartition
    offset: int
    last_offset: int
    seconds: float

    def __str__(self) -> str:
        held = held_text(self.partition, self.offset, self.last_offset)
        return f"handler no longer holds {held}, after {self.seconds:.0f} s"
