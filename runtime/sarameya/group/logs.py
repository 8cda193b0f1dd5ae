"""What a session can tell of the logs of its partitions beside what their claims read: which topic they are, what the
logs have, where leader epochs end. A handler asks before it says where to begin, and whenever it likes.

Owns which topic was told to be the one of a name: it is the one that is read then, or the claim fails (KIP-516).
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
        self._patience = runtime.config.request_timeout
        self._lookup = lookup
        self._epochs = EpochLookup(runtime.pool, runtime.metadata, runtime.observer, runtime.backoff)
        self._ids: dict[str, uuid.UUID] = {}

    async def reach(self, partitions: Iterable[TopicPartition]) -> None:
        """Have metadata that tells of these topics, if it is to be had soon: who has been dealt one by its leader may
        not have heard of it yet."""
        if not self._metadata.current.topics.keys() >= {partition.topic for partition in partitions}:
            with trio.move_on_after(self._patience):
                await self._metadata.refresh()

    def keep(self, topics: Collection[str]) -> None:
        """Only these are read; what comes to be read later is whatever it is then."""
        self._ids = {topic: topic_id for topic, topic_id in self._ids.items() if topic in topics}

    @property
    def cluster_id(self) -> str:
        return self._metadata.current.cluster_id

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The topic that has this name, and from now on the same one; None where brokers do not tell."""
        if topic not in self._ids:
            known = self._metadata.current.topics.get(topic)
            if known is None or known.topic_id is None:
                return None
            self._ids[topic] = known.topic_id
        return self._ids[topic]

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        """As `OffsetLookup.log_ranges`."""
        return await self._lookup.log_ranges(partitions)

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """As `EpochLookup.find`."""
        return await self._epochs.find(epochs)
