"""The log that a `ClaimFeed` reads, with the lookups that a session needs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

import attrs
import trio

from sarameya.consumer.offset_lookup import Found, OnFound, Place
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import LogRange, TopicPartition
from sarameya.net.log_offsets import LogOffset
from sarameya.offset_policy import timestamp_of


@attrs.frozen(slots=True)
class FeedFetchResponse:
    """A partition's part of a fetch response, with the fields that `FetchCursor` reads."""

    error_code: int
    high_watermark: int
    last_stable_offset: int
    records: bytes = b""
    diverging_epoch: None = None
    preferred_read_replica: None = None
    aborted_transactions: None = None


class FeedLog:
    """The log of one partition. Implements `Lookup` and `LogFacts`."""

    def __init__(self, log: PartitionLog, wall_clock: Callable[[], float]) -> None:
        self._log = log
        self._wall_clock = wall_clock
        self._id = uuid.uuid5(uuid.NAMESPACE_OID, log.partition.topic)

    def fetch(self, offset: int, max_bytes: int, limit: int) -> FeedFetchResponse:
        """Return the response to a fetch.

        Args:
            offset: Offset to read from.
            max_bytes: Maximum of bytes.
            limit: Offset up to which records are returned (exclusive).
        """
        log = self._log
        try:
            records = log.read(offset, max_bytes, limit)
        except Refused as refused:
            return FeedFetchResponse(refused.code, -1, -1)
        return FeedFetchResponse(ErrorCode.NONE, log.end_offset, log.end_offset, records)

    # -- Lookup --------------------------------------------------------------------------------------

    async def find(self, wanted: Mapping[TopicPartition, Place]) -> Found:
        await trio.lowlevel.checkpoint()
        return {partition: LogOffset(self._offset(place)) for partition, place in wanted.items()}

    async def find_each(self, wanted: Mapping[TopicPartition, Place], on_found: OnFound) -> None:
        if wanted:
            await on_found(await self.find(wanted))

    async def log_range(self, partition: TopicPartition) -> LogRange:
        await trio.lowlevel.checkpoint()
        return LogRange(self._log.start_offset, self._log.end_offset)

    def _offset(self, place: Place) -> int:
        match place:
            case "oldest":
                return self._log.start_offset
            case datetime() | timedelta():
                place = timestamp_of(place, self._wall_clock())
        found = self._log.offset_for_time(place) if isinstance(place, int) else None
        return self._log.end_offset if found is None else found.offset

    # -- LogFacts ------------------------------------------------------------------------------------

    async def fetch_metadata(self, partitions: Iterable[TopicPartition]) -> None:
        await trio.lowlevel.checkpoint()

    def keep_ids(self, topics: Collection[str]) -> None:
        """Ignore `topics`: the only topic never changes."""

    @property
    def cluster_id(self) -> str:
        """Empty, since there is no cluster."""
        return ""

    def topic_id(self, topic: str) -> uuid.UUID:
        return self._id

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        return {partition: await self.log_range(partition) for partition in partitions}

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        await trio.lowlevel.checkpoint()
        ends = {partition: self._log.epoch_end(epoch).end_offset for partition, epoch in epochs.items()}
        return {partition: end if end >= 0 else None for partition, end in ends.items()}
