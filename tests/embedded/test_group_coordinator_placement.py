"""group id -> partition of `__consumer_offsets`, by Java's hash."""

from __future__ import annotations

import pytest

from sarameya.embedded.group_coordinator import partition_for
from sarameya.embedded.groups.placement import java_hash


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
def test_java_hash_is_the_one_of_java_strings(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize(
    ("group_id", "count", "partition"),
    [
        ("KafkaConsumerDemo", 50, 35),
        ("polygenelubricants", 50, 0),
        ("", 50, 0),
        ("a", 50, 47),
        ("a", 1, 0),
    ],
)
def test_partition_for_a_group_is_where_kafka_keeps_it(group_id: str, count: int, partition: int) -> None:
    assert partition_for(group_id, count) == partition
