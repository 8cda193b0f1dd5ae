"""What happens to a position that its log does not have: the policy decides, and says so.

Two faults meet it: the broker answers that the offset is out of range (retention has overtaken it, or the log ends
before it), and the log was cut below it (KIP-320). Owns the new position, the event and the typed error. Finding the
faults is the broker consumer's, reading on the fetcher's.
"""

from __future__ import annotations

from collections.abc import Callable

from sarameya.config import Config
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import LogTruncatedError, OffsetOutOfRangeError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.observe import Observer, OffsetReset


class Resets:
    """Moves positions by `Config.offset_out_of_range`, or fails their claims.

    `on_reset` is told each position that was chosen, before anything is read from there.
    """

    def __init__(
        self,
        lookup: OffsetLookup,
        config: Config,
        observer: Observer,
        on_reset: Callable[[TopicPartition, int], None],
    ) -> None:
        self._lookup = lookup
        self._config = config
        self._observer = observer
        self._on_reset = on_reset

    async def out_of_range(self, consumer: PartitionConsumer) -> bool:
        """The position is not in the log. True: it has been moved, and is to be read from there; False: the claim has
        failed, or ended meanwhile."""
        partition, policy = consumer.partition, self._config.offset_out_of_range
        try:
            if policy == "fail":
                start = (await self._lookup.find({partition: "oldest"}))[partition]
                end = (await self._lookup.find({partition: "newest"}))[partition]
                raise OffsetOutOfRangeError(partition, consumer.cursor.position, start, end)
            found = await self._lookup.find({partition: policy})
        except SarameyaError as error:
            if not consumer.has_ended:
                consumer.fail(error)
            return False
        return self._move(consumer, found[partition], policy)

    async def truncated(self, consumer: PartitionConsumer, diverging_offset: int) -> bool:
        """What was read from `diverging_offset` on is no longer what stands in the log: an election has cut it
        (KIP-320). As `out_of_range`, but that any policy other than `fail` goes on where the log diverges."""
        policy = self._config.offset_out_of_range
        if policy == "fail":
            if not consumer.has_ended:
                consumer.fail(LogTruncatedError(consumer.partition, consumer.cursor.position, diverging_offset))
            return False
        return self._move(consumer, diverging_offset, policy)

    def _move(self, consumer: PartitionConsumer, offset: int, policy: str) -> bool:
        if consumer.has_ended:
            return False
        before, consumer.cursor.position = consumer.cursor.position, offset
        self._on_reset(consumer.partition, offset)
        self._observer(OffsetReset(consumer.partition, before, offset, policy))
        return True
