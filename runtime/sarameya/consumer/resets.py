"""Resets of positions that the log does not have: the policy decides about the new position, and an event reports it.

There are two causes. The broker answers that the offset is out of range (retention has deleted it, or the log ends
before it), or the log was truncated below it (KIP-320). `protocol/fetch/fetch_cursor.py` says what each error code
means. `Resets` determines the new position, reports the event, or fails the claim with a typed error. The fetcher
continues at the new position, and `on_reset` corrects the marks.

A rule that is easily broken:

- A position that the policy has moved goes into the offset ledger, also if it moved back. Otherwise no later mark
  counts, and the policy would decide again after a rejoin. Tests:
  `tests/group/test_resilience.py::test_reset_position_is_committed_at_once`,
  `tests/consumer/test_resets.py::test_position_that_the_policy_chose_is_committed`.
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
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.fetch_cursor import Truncated
from sarameya.protocol.offset_ledger import PositionSince

OUT_OF_RANGE = "the offset is out of range"
TRUNCATED = "the log was truncated"


@attrs.frozen(slots=True)
class Move:
    """Replacement of a position that was not in the log."""

    partition: TopicPartition
    before: int
    after: int
    is_first: bool
    """True if the claim has read no message yet: it starts at `after`."""
    position_since: PositionSince
    """Returns the claim's position after the move; None while the claim reads messages that were fetched before it."""


OnReset: TypeAlias = Callable[[Move], None]


class Resets:
    """Resets by `Config.offset_out_of_range`: moves positions, or fails their claims.

    `on_reset` is called with each move, before any record at the new position is fetched.
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
        """Handle a broker's answer that the position is not in the log.

        Returns:
            True if reading continues: at the new position or, if the position is in the log after all, at the old one.
            False if the claim has failed or ended meanwhile.
        """
        partition, position = consumer.partition, consumer.cursor.position
        policy = self._config.offset_out_of_range_of(partition.topic)
        try:
            log = await self._lookup.log_range(partition)
            start, end = log.start, log.end
            if start <= position <= end:
                # A lagging replica answered, or the log was just being replaced: no reason to skip messages.
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
        """Handle a log that an election has truncated below the position (KIP-320).

        With any policy other than `fail`, reading continues at the offset where the logs diverge or, if that offset is
        unknown, at the offset that the policy determines.

        Returns:
            As for `out_of_range`.
        """
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
        move = Move(consumer.partition, before, after, before == consumer.start_offset, consumer.position_from_here())
        consumer.cursor.move(after, found.leader_epoch, found.lookup_epoch)
        self._on_reset(move)
        consumer.on_arrival()  # the claim may be waiting at the old position
        deleted = max(log.start - before, 0)
        name = describe_policy(policy)
        self._observer(OffsetReset(consumer.partition, before, after, name, reason, log.start, log.end, deleted))
        return True

    async def _wait(self, consumer: PartitionConsumer, cause: str) -> None:
        now = trio.current_time()
        attempts = consumer.source.retry(now, cause)
        what, elapsed = f"fetch of {consumer.partition}", now - attempts.since
        if self._backoff.gives_up(attempts, now):
            raise RetriesExhaustedError(what, attempts.attempt, elapsed, cause)
        delay = self._backoff.delay(attempts.attempt)
        self._observer(Retrying(what, attempts.attempt, elapsed, delay, cause, kind="fetch"))
        await trio.sleep(delay)


def _fail(consumer: PartitionConsumer, error: SarameyaError) -> None:
    if not consumer.has_ended:
        consumer.fail(error)
