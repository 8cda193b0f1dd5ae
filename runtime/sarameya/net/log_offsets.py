"""Where logs begin and end, and where a time stands in them (ListOffsets), for as many partitions as can be told.

For those who look at a cluster and go on with what they have got: a partition that cannot be told has its reason
beside it. `consumer.offset_lookup` is for a consumer, which cannot begin without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import trio
from kafka.protocol.consumer import ListOffsetsRequest

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import RetriesExhaustedError, SarameyaError
from sarameya.model import TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff

LOG_END = -1
LOG_START = -2
"""What may be asked for in place of a time (KIP-79)."""

NO_SUCH_OFFSET = -1
"""What a time is answered with when every message is older."""

_MOST_ATTEMPTS = 5
"""Some three seconds with the default backoff."""

_READ_UNCOMMITTED = 0
_CONSUMER = -1

_FOR_GOOD = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Codes that asking again will not change."""


@attrs.frozen(slots=True)
class LogOffsets:
    """The offsets that could be told, and why the others could not."""

    found: Mapping[TopicPartition, int]
    missing: Mapping[TopicPartition, str] = attrs.field(factory=dict)


@attrs.define(slots=True)
class _Round:
    """What one round of requests, one to each leader, has brought."""

    found: dict[TopicPartition, int] = attrs.field(factory=dict)
    hopeless: dict[TopicPartition, str] = attrs.field(factory=dict)
    again: dict[TopicPartition, str] = attrs.field(factory=dict)

    def take(self, partition: TopicPartition, code: int, offset: int) -> None:
        if not code:
            self.found[partition] = offset
        else:
            place = self.hopeless if code in _FOR_GOOD else self.again
            place[partition] = ErrorCode.describe(code)


class LogOffsetReader:
    """Asks the leaders of partitions, all at once, and again with fresh metadata where that may help.

    The log's end is the high watermark, as for a consumer that reads uncommitted.
    """

    def __init__(self, pool: BrokerPool, metadata: MetadataRefresher, config: Config, observer: Observer) -> None:
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        backoff = Backoff.of(config)
        self._backoff = attrs.evolve(backoff, max_attempts=min(backoff.max_attempts, _MOST_ATTEMPTS))

    async def find(self, partitions: Iterable[TopicPartition], timestamp: int) -> LogOffsets:
        """The first offset at or after `timestamp` (milliseconds, LOG_START or LOG_END); NO_SUCH_OFFSET if none is.

        What cannot be told is asked for again a few times: an election is over by then, and a dead broker is not
        waited for.
        """
        left = set(partitions)
        found: dict[TopicPartition, int] = {}
        missing: dict[TopicPartition, str] = {}
        retries = Retries("offsets of the log", self._backoff, self._observer)
        while left:
            this = await self._ask_leaders(left, timestamp)
            found |= this.found
            missing |= this.hopeless
            left = this.again.keys() - found.keys()
            if left:
                partition = min(left)
                try:
                    await retries.wait(f"{partition}: {this.again[partition]}")
                except RetriesExhaustedError:
                    missing |= this.again
                    break
                with trio.move_on_after(self._config.request_timeout):
                    await self._metadata.refresh()
        return LogOffsets(found, missing)

    async def _ask_leaders(self, wanted: Iterable[TopicPartition], timestamp: int) -> _Round:
        this = _Round()
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leader = self._metadata.current.leader(partition)
            if leader is not None:
                by_leader.setdefault(leader, []).append(partition)
            elif self._metadata.current.partition(partition) is None:
                this.hopeless[partition] = "no such partition"
            else:
                this.again[partition] = "the partition has no leader"
        async with trio.open_nursery() as nursery:
            for leader, partitions in by_leader.items():
                nursery.start_soon(self._ask, leader, partitions, timestamp, this)
        return this

    async def _ask(self, leader: int, partitions: list[TopicPartition], timestamp: int, this: _Round) -> None:
        unanswered = dict.fromkeys(partitions, "left out of the answer")
        try:
            answer = await self._pool.request(
                leader,
                Purpose.METADATA,
                ListOffsetsRequest,
                replica_id=_CONSUMER,
                isolation_level=_READ_UNCOMMITTED,
                topics=_topics(partitions, timestamp),
            )
        except SarameyaError as error:
            this.again.update(dict.fromkeys(partitions, str(error)))
            return
        for topic in answer.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                if unanswered.pop(partition, None) is not None:
                    this.take(partition, part.error_code, part.offset)
        this.again.update(unanswered)


def _topics(partitions: Iterable[TopicPartition], timestamp: int) -> list[object]:
    topic = ListOffsetsRequest.ListOffsetsTopic
    return [
        topic(
            name=name,
            partitions=[
                topic.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=timestamp)
                for number in numbers
            ],
        )
        for name, numbers in by_topic(list(partitions)).items()
    ]
