"""Offsets of log start, log end and timestamps (ListOffsets, KIP-79).

`ask_leaders` sends one request to each leader, for any caller. `LogOffsetReader` serves observers of a cluster, which
can use partial results: it returns a reason for each missing offset. `consumer.offset_lookup` serves consumers, which
cannot start a partition without an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import trio
from kafka.protocol.consumer import ListOffsetsRequest

from sarameya.config import Config, IsolationLevel
from sarameya.error_codes import ErrorCode
from sarameya.errors import RetriesExhaustedError, SarameyaError
from sarameya.model import NO_LEADER_EPOCH, TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.cluster.metadata import ClusterMetadata
from sarameya.protocol.records.transactions import ISOLATION_LEVELS

LOG_END = -1
"""In place of a timestamp: the high watermark (under `read_committed`: the last stable offset)."""
LOG_START = -2
"""In place of a timestamp: the first offset that the log still has."""

NO_SUCH_OFFSET = -1
"""Result for a timestamp if all messages are older."""

_CONSUMER = -1
"""Replica id of consumers."""

_MAX_ATTEMPTS = 5
"""Bound for the attempts; they take about three seconds with the default backoff."""

_PERMANENT = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Error codes that a retry does not change."""


# -- one request ----------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class LogOffset:
    """Offset in a log, as a leader reported it."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    """Leader epoch at that offset. A later truncation below the offset is detected by it (KIP-320)."""
    lookup_epoch: int = NO_LEADER_EPOCH
    """Epoch of the leader that reported the offset, by our metadata. This leader needs no OffsetForLeaderEpoch request
    for the offset (KIP-320)."""


@attrs.define(slots=True)
class OffsetResults:
    """Results of one request to each leader. Each requested partition is in exactly one of the mappings."""

    found: dict[TopicPartition, LogOffset] = attrs.field(factory=dict)
    refused: dict[TopicPartition, int] = attrs.field(factory=dict)
    """Partition -> the broker's error code."""
    unanswered: dict[TopicPartition, str] = attrs.field(factory=dict)
    """Partition -> the reason why there is no response."""

    def add(self, others: OffsetResults) -> None:
        """Add the results of another request."""
        self.found |= others.found
        self.refused |= others.refused
        self.unanswered |= others.unanswered


Wanted = dict[TopicPartition, int]
"""Partition -> timestamp to look up: milliseconds since 1970, LOG_START or LOG_END."""


def by_leader(metadata: ClusterMetadata, wanted: Mapping[TopicPartition, int]) -> dict[int | None, Wanted]:
    """Group the partitions by leader; None for those without one."""
    leaders: dict[int | None, Wanted] = {}
    for partition, timestamp in wanted.items():
        leaders.setdefault(metadata.leader(partition), {})[partition] = timestamp
    return leaders


async def ask_leaders(
    pool: BrokerPool,
    metadata: ClusterMetadata,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = "read_uncommitted",
) -> OffsetResults:
    """Ask all leaders at the same time for the first offset at or after a timestamp. Wait for all of them.

    Never raises for a failed request: the results have the reasons.

    Args:
        pool: The connections.
        metadata: The leaders.
        wanted: The timestamp of each partition.
        isolation_level: Defines LOG_END: the high watermark, or under `read_committed` the last stable offset.
    """
    results = OffsetResults()

    async def ask(leader: int | None, of_leader: Wanted) -> None:
        results.add(await ask_leader(pool, metadata, leader, of_leader, isolation_level))

    async with trio.open_nursery() as nursery:
        for leader, of_leader in by_leader(metadata, wanted).items():
            nursery.start_soon(ask, leader, of_leader)
    return results


async def ask_leader(
    pool: BrokerPool,
    metadata: ClusterMetadata,
    leader: int | None,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
) -> OffsetResults:
    """Ask one leader, as `ask_leaders` does; None for partitions without a leader."""
    results = OffsetResults()
    if leader is None:
        results.unanswered = dict.fromkeys(wanted, "the partition has no leader")
        return results
    try:
        answer = await pool.request(
            leader,
            Purpose.METADATA,
            ListOffsetsRequest,
            replica_id=_CONSUMER,
            isolation_level=ISOLATION_LEVELS[isolation_level],
            topics=_topics(wanted, metadata),
        )
    except SarameyaError as error:
        results.unanswered = dict.fromkeys(wanted, str(error))
    else:
        _add_response(answer, wanted, metadata, results)
    return results


def _topics(wanted: Mapping[TopicPartition, int], metadata: ClusterMetadata) -> list[object]:
    """Encode the partitions, each with the leader epoch from our metadata.

    A former leader that does not know that it has been replaced refuses the higher epoch. Otherwise it would return
    offsets of its own log (KIP-320).
    """
    row = ListOffsetsRequest.ListOffsetsTopic
    return [
        row(
            name=topic,
            partitions=[
                row.ListOffsetsPartition(
                    partition_index=number,
                    current_leader_epoch=_epoch(metadata, TopicPartition(topic, number)),
                    timestamp=wanted[TopicPartition(topic, number)],
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(list(wanted)).items()
    ]


def _epoch(metadata: ClusterMetadata, partition: TopicPartition) -> int:
    found = metadata.partition(partition)
    return NO_LEADER_EPOCH if found is None else found.leader_epoch


def _add_response(
    answer: Any, wanted: Iterable[TopicPartition], metadata: ClusterMetadata, results: OffsetResults
) -> None:
    """Add the results in a response, and those of partitions that the response leaves out."""
    left = dict.fromkeys(wanted, "missing in the response")
    for topic in answer.topics:
        for part in topic.partitions:
            partition = TopicPartition(topic.name, part.partition_index)
            if left.pop(partition, None) is None:
                continue  # not requested, or a duplicate
            if part.error_code:
                results.refused[partition] = part.error_code
            else:
                results.found[partition] = LogOffset(part.offset, part.leader_epoch, _epoch(metadata, partition))
    results.unanswered |= left


# -- with retries ---------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class LogOffsets:
    """Offsets that were found, and the reason for each missing offset."""

    found: Mapping[TopicPartition, int]
    missing: Mapping[TopicPartition, str] = attrs.field(factory=dict)


class LogOffsetReader:
    """Lookup of offsets with the leaders of partitions. Failed lookups are retried with fresh metadata."""

    def __init__(self, pool: BrokerPool, metadata: MetadataRefresher, config: Config, observer: Observer) -> None:
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        backoff = Backoff.of(config)
        self._backoff = attrs.evolve(backoff, max_attempts=min(backoff.max_attempts, _MAX_ATTEMPTS))

    async def find(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> LogOffsets:
        """Return the first offset at or after `timestamp` in each log, or NO_SUCH_OFFSET.

        Failed lookups are retried a few times. That is long enough for a leader election; a dead broker is not waited
        for.

        Args:
            partitions: The logs.
            timestamp: Milliseconds since 1970, LOG_START or LOG_END.
            isolation_level: Defines LOG_END: the high watermark, or under `read_committed` the last stable offset.
        """
        found: dict[TopicPartition, int] = {}
        missing: dict[TopicPartition, str] = {}
        left = dict.fromkeys(partitions, timestamp)
        retries = Retries("offsets of the log", self._backoff, self._observer, kind="offset_lookup")
        while left:
            again = await self._find_once(left, found, missing, isolation_level)
            left = dict.fromkeys(again, timestamp)
            if again:
                partition = min(again)
                try:
                    await retries.wait(f"{partition}: {again[partition]}")
                except RetriesExhaustedError:
                    missing |= again
                    break
                with trio.move_on_after(self._config.request_timeout):
                    await self._metadata.refresh()
        return LogOffsets(found, missing)

    async def _find_once(
        self,
        wanted: Mapping[TopicPartition, int],
        found: dict[TopicPartition, int],
        missing: dict[TopicPartition, str],
        isolation_level: IsolationLevel,
    ) -> dict[TopicPartition, str]:
        """Fill `found`, and `missing` for permanent failures. Return the causes of the failures to retry."""
        metadata = self._metadata.current
        known = {partition: time for partition, time in wanted.items() if metadata.partition(partition) is not None}
        missing |= {partition: "no such partition" for partition in wanted if partition not in known}
        results = await ask_leaders(self._pool, metadata, known, isolation_level)
        found |= {partition: place.offset for partition, place in results.found.items()}
        again = dict(results.unanswered)
        for partition, code in results.refused.items():
            (missing if code in _PERMANENT else again)[partition] = ErrorCode.describe(code)
        return again
