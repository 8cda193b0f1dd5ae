"""Choice of a record's partition. Pure.

By the key, as Kafka's own producers do, so that all records of a key are in the same partition. Records without a key
stay with a partition until it has got its share, and then move to another (KIP-480, KIP-794): a hundred small batches
for a hundred partitions would cost more than one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
from kafka.partitioner.default import murmur2


def partition_of(key: bytes, count: int) -> int:
    """Return the partition, of `count`, of records with this key."""
    return int((murmur2(key) & 0x7FFFFFFF) % count)


@attrs.define(slots=True)
class _Stay:
    """Current partition of records without a key, and the bytes that it has got."""

    partition: int
    size: int = 0


class Partitioner:
    """Choice of partitions for one producer. `share`: bytes without a key that a partition gets before the next one."""

    def __init__(self, share: int, rng: random.Random) -> None:
        self._share = share
        self._rng = rng
        self._stays: dict[str, _Stay] = {}

    def choose(self, topic: str, key: bytes | None, size: int, count: int, led: Sequence[int]) -> int:
        """Return the partition for a record.

        Args:
            topic: The record's topic.
            key: The record's key. Without one, partitions with a leader are preferred.
            size: Bytes of the record.
            count: Number of the topic's partitions.
            led: Partitions with a leader.
        """
        if key is not None:
            return partition_of(key, count)
        stay = self._stays.get(topic)
        candidates = led or range(count)
        if stay is None or stay.size >= self._share or stay.partition not in candidates:
            others = [number for number in candidates if stay is None or number != stay.partition] or candidates
            stay = self._stays[topic] = _Stay(self._rng.choice(others))
        stay.size += size
        return stay.partition
