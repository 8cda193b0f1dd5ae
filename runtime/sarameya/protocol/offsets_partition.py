"""Which partition of `__consumer_offsets` keeps a group: its leader coordinates the group. Pure arithmetic.

partition_for("KafkaConsumerDemo")      # 35
"""

from __future__ import annotations

import struct

OFFSETS_TOPIC = "__consumer_offsets"
"""Where group coordinators keep what they must not forget."""

DEFAULT_OFFSETS_PARTITIONS = 50
"""Partitions of `__consumer_offsets` unless the brokers are told otherwise (offsets.topic.num.partitions)."""


def partition_for(group_id: str, count: int = DEFAULT_OFFSETS_PARTITIONS) -> int:
    """The partition of `__consumer_offsets` that keeps the group, if that topic has `count` partitions."""
    value = java_hash(group_id)
    # As Kafka's Utils.abs: the one int without a positive counterpart becomes 0.
    return (0 if value == -(2**31) else abs(value)) % count


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: 31 * h + unit over the UTF-16 units, in 32 bits with a sign."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
