"""Offsets by policy or by time: where a log begins and ends, and where a time stands in it (ListOffsets), asked of each
leader in one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError, kafka_error
from sarameya.model import TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff

TIMESTAMP_OF = {"newest": -1, "oldest": -2}
"""The reset policies as ListOffsets timestamps: the log's end, and its start."""

NO_SUCH_OFFSET = -1
"""What a time is answered with when every message is older."""

_FATAL = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})


class OffsetLookup:
    """Asks the leaders of partitions for offsets; follows them when they move."""

    def __init__(
        self,
        pool: BrokerPool,
        metadata: MetadataRefresher,
        config: Config,
        observer: Observer,
        backoff: Backoff | None = None,
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        self._backoff = backoff or Backoff.of(config)

    async def find(self, wanted: Mapping[TopicPartition, str | int]) -> dict[TopicPartition, int]:
        """The offset for each partition by its policy (`oldest` or `newest`), or of the first message at or after its
        time (milliseconds since 1970), NO_SUCH_OFFSET where every message is older.

        Retries until every one is known; bound it with a cancel scope. Raises TopicAuthorizationError.
        """
        found: dict[TopicPartition, int] = {}
        retries = Retries("offset lookup", self._backoff, self._observer)
        while True:
            left = {tp: at for tp, at in wanted.items() if tp not in found}
            cause = await self._ask_leaders(left, found)
            if cause is None:
                return found
            await retries.wait(cause)
            await self._metadata.refresh()

    async def _ask_leaders(
        self, wanted: Mapping[TopicPartition, str | int], found: dict[TopicPartition, int]
    ) -> str | None:
        """Ask each leader once, filling `found`; the reason why some are missing, or None if none is."""
        cause: str | None = None
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leader = self._metadata.current.leader(partition)
            if leader is None:
                cause = f"{partition} has no leader"
            else:
                by_leader.setdefault(leader, []).append(partition)
        for leader, partitions in by_leader.items():
            asked = {tp: wanted[tp] for tp in partitions}
            try:
                answer = await self._ask(leader, asked)
            except SarameyaError as error:
                cause = str(error)
                continue
            cause = _take(answer, asked, found) or cause
        return cause

    async def _ask(self, leader: int, wanted: Mapping[TopicPartition, str | int]) -> Any:
        request = ListOffsetsRequest
        return await self._pool.request(
            leader,
            Purpose.METADATA,
            request,
            replica_id=-1,
            isolation_level=1 if self._config.isolation_level == "read_committed" else 0,
            topics=[
                request.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        request.ListOffsetsTopic.ListOffsetsPartition(
                            partition_index=number,
                            current_leader_epoch=-1,
                            timestamp=_timestamp(wanted[TopicPartition(topic, number)]),
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(list(wanted)).items()
            ],
        )


def _timestamp(at: str | int) -> int:
    return TIMESTAMP_OF[at] if isinstance(at, str) else at


def _take(answer: Any, asked: Mapping[TopicPartition, str | int], found: dict[TopicPartition, int]) -> str | None:
    """Put the offsets that the answer tells into `found`; why one of those `asked` for is missing, if one is."""
    missing = dict.fromkeys(asked, "left out of the answer")
    for topic in answer.topics:
        for part in topic.partitions:
            partition = TopicPartition(topic.name, part.partition_index)
            if partition not in missing:
                continue  # not asked for, or told already
            if part.error_code in _FATAL:
                raise kafka_error(part.error_code, f"offset lookup of {partition}")
            if part.error_code:
                missing[partition] = ErrorCode.describe(part.error_code)
            elif part.offset < 0 and isinstance(asked[partition], str):
                missing[partition] = "no offset in the answer"
            else:
                found[partition] = max(part.offset, NO_SUCH_OFFSET)
                del missing[partition]
    return next((f"{partition}: {cause}" for partition, cause in missing.items()), None)
