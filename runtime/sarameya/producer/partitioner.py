"""Which partition a record goes to. Pure.

By its key as Kafka's own producers do, so that what others have written under a key stands in the same partition.
Without a key they stay with a partition until it has got its share, and go on to another (KIP-480, KIP-794): a batch
for each of a hundred partitions would cost more than one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
from kafka.partitioner.default import murmur2


def partition_of(key: bytes, count: int) -> int:
    """Of `count` partitions, the one where records under this key stand."""
    return int((murmur2(key) & 0x7FFFFFFF) % count)


@attrs.define(slots=True)
class _Stay:
    """The partition that records without a key go to for now, and how many bytes it has got of them."""

    partition: int
    size: int = 0


class Partitioner:
    """Chooses for one producer. `share`: so many bytes without a key go to a partition before the next has its turn."""

    def __init__(self, share: int, rng: random.Random) -> None:
        self._share = share
        self._rng = rng
        self._stays: dict[str, _Stay] = {}

    def choose(self, topic: str, key: bytes | None, size: int, count: int, led: Sequence[int]) -> int:
        """One of the topic's `count` partitions; without a key, of those that are `led` where any is."""
        if key is not None:
            return partition_of(key, count)
        stay = self._stays.get(topic)
        candidates = led or range(count)
        if stay is None or stay.size >= self._share or stay.partition not in candidates:
            others = [number for number in candidates if stay is None or number != stay.partition] or candidates
            stay = self._stays[topic] = _Stay(self._rng.choice(others))
        stay.size += size
        return stay.partition
