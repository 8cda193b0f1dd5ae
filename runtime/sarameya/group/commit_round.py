"""One commit that any number of callers wait for: which marks it takes, and what each caller has to hear of it."""

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
"""Some partitions; None: all of them."""


@attrs.define(slots=True)
class Round:
    """Callers share it, and not each other's refusals: a handler may well cope with the one it has asked for."""

    done: trio.Event = attrs.field(factory=trio.Event)
    error: SarameyaError | None = None
    """What broke it off."""
    refused: dict[TopicPartition, KafkaError] = attrs.field(factory=dict)
    takes_all: bool = False
    """Every mark goes out, whoever waits."""
    _waiters: list[Partitions] = attrs.field(factory=list)
    _left: list[Partitions] = attrs.field(factory=list)
    _unknown: Counter[TopicPartition] = attrs.field(factory=Counter)
    """How often the coordinator has not known a partition's topic."""

    def takes(self, partition: TopicPartition) -> bool:
        """Whether this partition's mark goes out."""
        return self.takes_all or _is_in_any(partition, [*self._waiters, *self._left])

    def is_final(self, partition: TopicPartition, code: int) -> bool:
        """Whether this answer is raised. A topic that the coordinator does not know is asked for a few times."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown[partition] += 1
            return self._unknown[partition] >= LOOK_UPS
        return reaction_to(Request.COMMIT, code) is Reaction.RAISE

    async def wait(self, partitions: Partitions) -> None:
        """Take these marks too, and wait until it is done; raises what broke it off, or what was refused of these."""
        self._waiters.append(partitions)
        try:
            await self.done.wait()
        except trio.Cancelled:
            # The marks still go out, but for nobody.
            self._waiters.remove(partitions)
            self._left.append(partitions)
            raise
        refused = (error for partition, error in self.refused.items() if _is_in(partition, partitions))
        if (failure := _as_one(self.error, refused)) is not None:
            raise failure

    def unheard(self) -> SarameyaError | None:
        """What is raised to nobody."""
        refused = (error for partition, error in self.refused.items() if not _is_in_any(partition, self._waiters))
        return _as_one(None if self._waiters else self.error, refused)


def _is_in_any(partition: TopicPartition, several: Iterable[Partitions]) -> bool:
    return any(_is_in(partition, partitions) for partitions in several)


def _is_in(partition: TopicPartition, partitions: Partitions) -> bool:
    return partitions is None or partition in partitions


def _as_one(error: SarameyaError | None, others: Iterable[SarameyaError]) -> SarameyaError | None:
    """A fresh error that has the others for notes."""
    errors = [error, *others] if error is not None else [*others]
    if not errors:
        return None
    fresh = errors[0].again()
    for other in errors[1:]:
        fresh.add_note(str(other))
    return fresh
