"""The partition of `__consumer_offsets` for a group id, by Java's hash."""

from __future__ import annotations

import pytest

from sarameya.protocol.cluster.offsets_partition import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("KafkaConsumerDemo", -2039247585),
        ("polygenelubricants", -(2**31)),  # the well-known string whose hash has no absolute value
        ("é", 0xE9),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # two UTF-16 units, as Java counts
    ],
)
def test_java_hash_equals_javas_string_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize(
    ("group_id", "count", "partition"),
    [
        ("polygenelubricants", 50, 0),
        ("", 50, 0),
        ("a", 50, 47),
        ("a", 1, 0),
    ],
)
def test_partition_for_a_group_equals_kafkas(group_id: str, count: int, partition: int) -> None:
    assert partition_for(group_id, count) == partition


def test_partition_for_group_kafka_consumer_demo_is_35() -> None:
    """The worked example of the document on the consumer's rebalance."""
    assert partition_for("KafkaConsumerDemo") == 35
