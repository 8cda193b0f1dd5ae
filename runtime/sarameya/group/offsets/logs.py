"""Facts about the logs of a session's partitions: topic ids, offset ranges, and ends of leader epochs.

A handler may request these facts before it returns a start offset, and at any later time. `Logs` pins the topic id that
it returned for a topic name: the claim reads the topic with this id, or fails (KIP-516).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping

import trio

from sarameya.consumer.epoch_lookup import EpochLookup
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.group.runtime import Runtime
from sarameya.model import LogRange, TopicPartition


class Logs:
    """The logs of one session."""

    def __init__(self, runtime: Runtime, lookup: OffsetLookup) -> None:
        self._metadata = runtime.metadata
        self._timeout = runtime.config.request_timeout
        self._lookup = lookup
        self._epochs = EpochLookup(runtime.pool, runtime.metadata, runtime.observer, runtime.backoff)
        self._ids: dict[str, uuid.UUID] = {}

    async def fetch_metadata(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch metadata of these topics if it is missing, within the request timeout.

        A member may not have metadata yet of a topic that the group's leader has assigned to it.
        """
        if not self._metadata.current.topics.keys() >= {partition.topic for partition in partitions}:
            with trio.move_on_after(self._timeout):
                await self._metadata.refresh()

    def keep_ids(self, topics: Collection[str]) -> None:
        """Drop the pinned ids of all other topics. A topic that is assigned later gets the id that it has then."""
        self._ids = {topic: topic_id for topic, topic_id in self._ids.items() if topic in topics}

    @property
    def cluster_id(self) -> str:
        """Id of the cluster; empty if its brokers have none."""
        return self._metadata.current.cluster_id

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return the topic's id, and pin it; None if brokers do not report ids."""
        if topic not in self._ids:
            known = self._metadata.current.topics.get(topic)
            if known is None or known.topic_id is None:
                return None
            self._ids[topic] = known.topic_id
        return self._ids[topic]

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        """Return the offset range of each log, as `OffsetLookup.log_ranges` does."""
        return await self._lookup.log_ranges(partitions)

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the end of each leader epoch, as `EpochLookup.find` does."""
        return await self._epochs.find(epochs)
