"""Choice of a record's partition. Pure.

The key determines the partition, as with Kafka's own producers, so all records of a key are in the same partition.
Records without a key go to one partition until it has got its share, then to another (sticky partitioning, KIP-480,
KIP-794): one large batch costs less than a small batch for each partition.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
from kafka.partitioner.default import murmur2


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of records with this key, in a topic with `count` partitions."""
    return int((murmur2(key) & 0x7FFFFFFF) % count)


@attrs.define(slots=True)
class _StickyPartition:
    """Current partition for records without a key, and the bytes that it has got."""

    partition: int
    size: int = 0


class Partitioner:
    """Choice of partitions for one producer.

    Args:
        share: Bytes of records without a key that a partition gets before another is chosen.
        rng: Source of randomness.
    """

    def __init__(self, share: int, rng: random.Random) -> None:
        self._share = share
        self._rng = rng
        self._sticky: dict[str, _StickyPartition] = {}

    def choose(self, topic: str, key: bytes | None, size: int, count: int, with_leader: Sequence[int]) -> int:
        """Return the partition for a record.

        Args:
            topic: The record's topic.
            key: The record's key, if it has one.
            size: Bytes of the record.
            count: Number of the topic's partitions.
            with_leader: Partitions with a leader. Records without a key go to these, if there are any.
        """
        if key is not None:
            return partition_of(key, count)
        sticky = self._sticky.get(topic)
        candidates = with_leader or range(count)
        if sticky is None or sticky.size >= self._share or sticky.partition not in candidates:
            others = [number for number in candidates if sticky is None or number != sticky.partition] or candidates
            sticky = self._sticky[topic] = _StickyPartition(self._rng.choice(others))
        sticky.size += size
        return sticky.partition
