"""A commit that any number of callers wait for: the marks that it takes, and the error that each caller gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.protocol.reactions import Reaction, Request, reaction_to
from sarameya.protocol.subscription import LOOK_UPS

Partitions = frozenset[TopicPartition] | None
"""A set of partitions; None means all of them."""


@attrs.define(slots=True)
class Round:
    """A commit shared by its callers. Each caller gets only the refusals of partitions that it asked for."""

    done: trio.Event = attrs.field(factory=trio.Event)
    error: SarameyaError | None = None
    """The error that aborted the whole commit."""
    refused: dict[TopicPartition, KafkaError] = attrs.field(factory=dict)
    takes_all: bool = False
    """True if every mark is committed, whoever waits."""
    _waiters: list[Partitions] = attrs.field(factory=list)
    _left: list[Partitions] = attrs.field(factory=list)
    _unknown: Counter[TopicPartition] = attrs.field(factory=Counter)
    """Number of responses in which the coordinator did not know the partition's topic."""

    def takes(self, partition: TopicPartition) -> bool:
        """Return whether this partition's mark is committed in this round."""
        return self.takes_all or _is_in_any(partition, [*self._waiters, *self._left])

    def is_final(self, partition: TopicPartition, code: int) -> bool:
        """Return whether this error code is raised. A topic unknown to the coordinator is retried a few times."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown[partition] += 1
            return self._unknown[partition] >= LOOK_UPS
        return reaction_to(Request.COMMIT, code) is Reaction.RAISE

    async def wait(self, partitions: Partitions) -> None:
        """Take the marks of these partitions, too, and wait until the round is done.

        Raises:
            SarameyaError: The round was aborted, or one of these partitions was refused.
        """
        self._waiters.append(partitions)
        try:
            await self.done.wait()
        except trio.Cancelled:
            # The marks are still committed, but no caller gets the result.
            self._waiters.remove(partitions)
            self._left.append(partitions)
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
    """Return a fresh copy of the first error, with the others as notes."""
    errors = [error, *others] if error is not None else [*others]
    if not errors:
        return None
    fresh = errors[0].again()
    for other in errors[1:]:
        fresh.add_note(str(other))
    return fresh
