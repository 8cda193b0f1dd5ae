"""Partition of `__consumer_offsets` that stores a group. Its leader is the group's coordinator. Pure arithmetic.

partition_for("KafkaConsumerDemo")      # 35
"""

from __future__ import annotations

import struct

OFFSETS_TOPIC = "__consumer_offsets"
"""Topic in which coordinators store commits and group metadata."""

DEFAULT_OFFSETS_PARTITIONS = 50
"""Partitions of `__consumer_offsets` by default (the brokers' offsets.topic.num.partitions)."""


def partition_for(group_id: str, count: int = DEFAULT_OFFSETS_PARTITIONS) -> int:
    """Return the partition of `__consumer_offsets` that stores the group.

    Args:
        group_id: The group.
        count: Number of partitions of `__consumer_offsets`.
    """
    value = java_hash(group_id)
    # As Kafka's Utils.abs: the one int without a positive counterpart becomes 0.
    return (0 if value == -(2**31) else abs(value)) % count


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: 31 * h + unit over the UTF-16 units, as a signed 32-bit number."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
