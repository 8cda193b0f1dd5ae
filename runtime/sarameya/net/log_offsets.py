"""Where logs begin and end, and where a time stands in them (ListOffsets, KIP-79).

`ask_leaders` asks once, and is for all who want to know. `LogOffsetReader` is for those who look at a cluster and go
on with what they have got: a partition that cannot be told has its reason beside it. `consumer.offset_lookup` is for a
consumer, which cannot begin without.
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
from sarameya.protocol.metadata import ClusterMetadata
from sarameya.protocol.transactions import ISOLATION_LEVELS

LOG_END = -1
"""In place of a time: behind the last message (under read_committed: behind the last one that is decided)."""
LOG_START = -2
"""In place of a time: the first offset that the log still has."""

NO_SUCH_OFFSET = -1
"""What a time is answered with when every message is older."""

_CONSUMER = -1

_MOST_ATTEMPTS = 5
"""Some three seconds with the default backoff."""

_FOR_GOOD = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Codes that asking again will not change."""


# -- asking once ------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class LogOffset:
    """A place in a log."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    """What is told with it: by this it is found out, later, whether the log was cut below it (KIP-320)."""
    told_in: int = NO_LEADER_EPOCH
    """The epoch of the leader that told it, as far as we know: it is not to be asked whether that is so."""


@attrs.define(slots=True)
class Answers:
    """What asking each leader once has brought; every partition that was asked for stands in one of these."""

    found: dict[TopicPartition, LogOffset] = attrs.field(factory=dict)
    refused: dict[TopicPartition, int] = attrs.field(factory=dict)
    """The broker's error code."""
    unanswered: dict[TopicPartition, str] = attrs.field(factory=dict)
    """Why nothing was answered."""

    def add(self, others: Answers) -> None:
        """These, too."""
        self.found |= others.found
        self.refused |= others.refused
        self.unanswered |= others.unanswered


Wanted = dict[TopicPartition, int]
"""For each partition a time (milliseconds since 1970), LOG_START or LOG_END."""


def by_leader(metadata: ClusterMetadata, wanted: Mapping[TopicPartition, int]) -> dict[int | None, Wanted]:
    """Who is to be asked for what; None for partitions without a leader."""
    leaders: dict[int | None, Wanted] = {}
    for partition, timestamp in wanted.items():
        leaders.setdefault(metadata.leader(partition), {})[partition] = timestamp
    return leaders


async def ask_leaders(
    pool: BrokerPool,
    metadata: ClusterMetadata,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = "read_uncommitted",
) -> Answers:
    """Ask each partition's leader, all at once, for the first offset at or after a time; wait for all of them. Under
    `read_committed` the log ends at the first open transaction."""
    answers = Answers()

    async def ask(leader: int | None, of_leader: Wanted) -> None:
        answers.add(await ask_leader(pool, metadata, leader, of_leader, isolation_level))

    async with trio.open_nursery() as nursery:
        for leader, of_leader in by_leader(metadata, wanted).items():
            nursery.start_soon(ask, leader, of_leader)
    return answers


async def ask_leader(
    pool: BrokerPool,
    metadata: ClusterMetadata,
    leader: int | None,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
) -> Answers:
    """As `ask_leaders`, one of them."""
    answers = Answers()
    if leader is None:
        answers.unanswered = dict.fromkeys(wanted, "the partition has no leader")
        return answers
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
        answers.unanswered = dict.fromkeys(wanted, str(error))
    else:
        _take(answer, wanted, metadata, answers)
    return answers


def _topics(wanted: Mapping[TopicPartition, int], metadata: ClusterMetadata) -> list[object]:
    """With the epoch of the leader that is believed in: one that was deposed, and has not heard of it, is found out by
    others' higher ones, and does not tell where its own log ends (KIP-320)."""
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


def _take(answer: Any, wanted: Iterable[TopicPartition], metadata: ClusterMetadata, answers: Answers) -> None:
    left = dict.fromkeys(wanted, "left out of the answer")
    for topic in answer.topics:
        for part in topic.partitions:
            partition = TopicPartition(topic.name, part.partition_index)
            if left.pop(partition, None) is None:
                continue  # not asked for, or told already
            if part.error_code:
                answers.refused[partition] = part.error_code
            else:
                answers.found[partition] = LogOffset(part.offset, part.leader_epoch, _epoch(metadata, partition))
    answers.unanswered |= left


# -- asking a few times -----------------------------------------------------------------------------


@attrs.frozen(slots=True)
class LogOffsets:
    """The offsets that could be told, and why the others could not."""

    found: Mapping[TopicPartition, int]
    missing: Mapping[TopicPartition, str] = attrs.field(factory=dict)


class LogOffsetReader:
    """Asks the leaders of partitions, and again with fresh metadata where that may help.

    The log's end is the high watermark, as for a consumer that reads uncommitted, unless another level is asked for.
    """

    def __init__(self, pool: BrokerPool, metadata: MetadataRefresher, config: Config, observer: Observer) -> None:
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        backoff = Backoff.of(config)
        self._backoff = attrs.evolve(backoff, max_attempts=min(backoff.max_attempts, _MOST_ATTEMPTS))

    async def find(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> LogOffsets:
        """The first offset at or after `timestamp` (milliseconds, LOG_START or LOG_END); NO_SUCH_OFFSET if none is.

        What cannot be told is asked for again a few times: an election is over by then, and a dead broker is not
        waited for.
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
        """Fill `found`, and `missing` with what is hopeless; what to ask for again, and why."""
        metadata = self._metadata.current
        known = {partition: at for partition, at in wanted.items() if metadata.partition(partition) is not None}
        missing |= {partition: "no such partition" for partition in wanted if partition not in known}
        answers = await ask_leaders(self._pool, metadata, known, isolation_level)
        found |= {partition: place.offset for partition, place in answers.found.items()}
        again = dict(answers.unanswered)
        for partition, code in answers.refused.items():
            (missing if code in _FOR_GOOD else again)[partition] = ErrorCode.describe(code)
        return again
