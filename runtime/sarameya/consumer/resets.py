"""What happens to a position that its log does not have: the policy decides, and says so.

Two faults meet it: the broker answers that the offset is out of range (retention has overtaken it, or the log ends
before it), and the log was cut below it (KIP-320). Owns the new position, the event and the typed error. Finding the
faults is the broker consumer's, reading on the fetcher's, and what becomes of marks whoever is told (`on_reset`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.offset_lookup import Lookup
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import LogTruncatedError, OffsetOutOfRangeError, RetriesExhaustedError, SarameyaError
from sarameya.model import LogRange, TopicPartition
from sarameya.net.log_offsets import LogOffset
from sarameya.observe import Observer, OffsetReset, Retrying
from sarameya.offset_policy import OffsetPolicy, describe_policy
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.fetch_cursor import Truncated
from sarameya.protocol.offset_ledger import Reach

OUT_OF_RANGE = "the offset is out of range"
TRUNCATED = "the log was truncated"


@attrs.frozen(slots=True)
class Move:
    """A position that was not in its log, and where it was moved to."""

    partition: TopicPartition
    before: int
    after: int
    is_first: bool
    """Nothing has been read: reading begins at `after`."""
    reach: Reach
    """How far the claim has come since; None as long as it is given what was fetched before."""


OnReset: TypeAlias = Callable[[Move], None]


class Resets:
    """Moves positions by `Config.offset_out_of_range`, or fails their claims.

    `on_reset` is told of each move, before anything is read from there.
    """

    def __init__(
        self,
        lookup: Lookup,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        on_reset: OnReset,
    ) -> None:
        self._lookup = lookup
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._on_reset = on_reset

    async def out_of_range(self, consumer: PartitionConsumer) -> bool:
        """A broker says that the position is not in the log. True: it is to be read on from the position, which has
        been moved where that was so; False: the claim has failed, or ended meanwhile."""
        partition, position = consumer.partition, consumer.cursor.position
        policy = self._config.offset_out_of_range_of(partition.topic)
        try:
            log = await self._lookup.log_range(partition)
            start, end = log.start, log.end
            if start <= position <= end:
                # A replica that lags behind, or a log that was just being replaced: nothing is to be skipped for that.
                await self._wait(consumer, f"offset {position} is out of range, but is in the log [{start}, {end}]")
                return not consumer.has_ended
            if policy == "fail":
                raise OffsetOutOfRangeError(partition, position, start, end)
            after = (await self._lookup.find({partition: policy}))[partition]
        except SarameyaError as error:
            _fail(consumer, error)
            return False
        return self._move(consumer, after, policy, OUT_OF_RANGE, log)

    async def truncated(self, consumer: PartitionConsumer, found: Truncated) -> bool:
        """What was read from there on is no longer what stands in the log: an election has cut it (KIP-320). As
        `out_of_range`, but that any policy other than `fail` goes on where the log diverges; where that is not known,
        by the policy."""
        partition = consumer.partition
        policy = self._config.offset_out_of_range_of(partition.topic)
        try:
            if policy == "fail":
                raise LogTruncatedError(partition, consumer.cursor.position, found.offset)
            log = await self._lookup.log_range(partition)
            if found.offset is None:
                after = (await self._lookup.find({partition: policy}))[partition]
            else:
                after = LogOffset(found.offset, found.leader_epoch)
        except SarameyaError as error:
            _fail(consumer, error)
            return False
        return self._move(consumer, after, policy, TRUNCATED, log)

    def _move(
        self, consumer: PartitionConsumer, found: LogOffset, policy: OffsetPolicy, reason: str, log: LogRange
    ) -> bool:
        if consumer.has_ended:
            return False
        before, after = consumer.cursor.position, found.offset
        move = Move(consumer.partition, before, after, before == consumer.began_at, consumer.reach_from_here())
        consumer.cursor.move(after, found.leader_epoch, found.told_in)
        self._on_reset(move)
        consumer.on_arrival()  # its claim may be waiting, at the old position
        gone = max(log.start - before, 0)
        name = describe_policy(policy)
        self._observer(OffsetReset(consumer.partition, before, after, name, reason, log.start, log.end, gone))
        return True

    async def _wait(self, consumer: PartitionConsumer, cause: str) -> None:
        now = trio.current_time()
        attempts = consumer.attempts.again(cause) if consumer.attempts else Attempts.first(now, cause)
        consumer.attempts = attempts
        what, elapsed = f"fetch of {consumer.partition}", now - attempts.since
        if self._backoff.gives_up(attempts, now):
            raise RetriesExhaustedError(what, attempts.attempt, elapsed, cause)
        delay = self._backoff.delay(attempts.attempt)
        self._observer(Retrying(what, attempts.attempt, elapsed, delay, cause, kind="fetch"))
        await trio.sleep(delay)


def _fail(consumer: PartitionConsumer, error: SarameyaError) -> None:
    if not consumer.has_ended:
        consumer.fail(error)
