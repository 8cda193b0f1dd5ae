"""A commit that any number of callers wait for: the marks that it includes, and the error that each caller gets.

`offset_manager.py` sends and retries it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.protocol.membership.states import Reaction, Request, reaction_to
from sarameya.protocol.subscription import LOOK_UPS

Partitions = frozenset[TopicPartition] | None
"""A set of partitions; None means all of them."""


@attrs.define(slots=True)
class Round:
    """A commit shared by its callers. Each caller gets only the errors of the partitions that it waits for."""

    done: trio.Event = attrs.field(factory=trio.Event)
    error: SarameyaError | None = None
    """The error that aborted the whole commit."""
    refused: dict[TopicPartition, KafkaError] = attrs.field(factory=dict)
    """The coordinator's error for each partition that it refused."""
    takes_all: bool = False
    """True if every mark is committed, even those for which no caller waits."""
    _waiters: list[Partitions] = attrs.field(factory=list)
    """Partitions of each waiting caller."""
    _cancelled: list[Partitions] = attrs.field(factory=list)
    """Partitions of each caller whose wait was cancelled. Their marks are still committed."""
    _unknown: Counter[TopicPartition] = attrs.field(factory=Counter)
    """Number of responses in which the coordinator did not know the partition's topic."""

    def takes(self, partition: TopicPartition) -> bool:
        """Return whether this partition's mark is committed in this round."""
        return self.takes_all or _is_in_any(partition, [*self._waiters, *self._cancelled])

    def is_final(self, partition: TopicPartition, code: int) -> bool:
        """Return whether this error code is raised without a retry. An unknown topic is retried a few times.

        Call this once for each response: it counts the responses with an unknown topic.
        """
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown[partition] += 1
            return self._unknown[partition] >= LOOK_UPS
        return reaction_to(Request.COMMIT, code) is Reaction.RAISE

    async def wait(self, partitions: Partitions) -> None:
        """Include the marks of these partitions in the round, and wait until it is done.

        Raises:
            SarameyaError: The round was aborted, or one of these partitions was refused.
        """
        self._waiters.append(partitions)
        try:
            await self.done.wait()
        except trio.Cancelled:
            # The marks are still committed, but no caller gets the result.
            self._waiters.remove(partitions)
            self._cancelled.append(partitions)
            raise
        refused = (error for partition, error in self.refused.items() if _is_in(partition, partitions))
        if (failure := _as_one(self.error, refused)) is not None:
            raise failure

    def unreported_error(self) -> SarameyaError | None:
        """Return the error that no caller waits for, or None."""
        refused = (error for partition, error in self.refused.items() if not _is_in_any(partition, self._waiters))
        return _as_one(None if self._waiters else self.error, refused)


def _is_in_any(partition: TopicPartition, several: Iterable[Partitions]) -> bool:
    return any(_is_in(partition, partitions) for partitions in several)


def _is_in(partition: TopicPartition, partitions: Partitions) -> bool:
    return partitions is None or partition in partitions


def _as_one(error: SarameyaError | None, others: Iterable[SarameyaError]) -> SarameyaError | None:
    """Return a copy of the first error, with the others as notes; None if there is no error."""
    errors = [error, *others] if error is not None else [*others]
    if not errors:
        return None
    copy = errors[0].again()
    for other in errors[1:]:
        copy.add_note(str(other))
    return copy
