"""Which broker coordinates a group: the leader of the group's partition of `__consumer_offsets`."""

from __future__ import annotations

import struct


def partition_for(group_id: str, count: int = 50) -> int:
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
