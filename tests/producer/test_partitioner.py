"""The partitioner, with hashes from Kafka's own tests (UtilsTest.testMurmur2)."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from sarameya.producer.partitioner import Partitioner, partition_of

KAFKA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KAFKA_HASHES, ids=repr)
def test_partition_of_a_key_is_that_of_kafka_s_producer(key):
    signed = KAFKA_HASHES[key]
    assert murmur2(key) == signed % 2**32
    for count in (1, 4, 7, 1000):
        assert partition_of(key, count) == (signed & 0x7FFFFFFF) % count


@given(st.binary(), st.integers(1, 5000))
def test_partition_of_a_key_exists(key, count):
    assert 0 <= partition_of(key, count) < count


def test_partition_of_a_key_does_not_depend_on_leaders():
    partitioner = Partitioner(100, random.Random(1))
    chosen = {partitioner.choose("orders", b"key", 10, 8, led) for led in ([], [1], range(8))}
    assert chosen == {partition_of(b"key", 8)}


def test_partition_changes_after_its_share_without_a_key():
    partitioner = Partitioner(100, random.Random(1))
    chosen = [partitioner.choose("orders", None, 10, 4, range(4)) for _ in range(400)]

    runs = [chosen[at : at + 10] for at in range(0, 400, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in pairwise(runs))
    assert set(Counter(chosen)) == {0, 1, 2, 3}


def test_leaderless_partition_is_left_at_once_without_a_key():
    partitioner = Partitioner(1000, random.Random(1))
    first = partitioner.choose("orders", None, 1, 4, range(4))

    assert partitioner.choose("orders", None, 1, 4, [n for n in range(4) if n != first]) != first


def test_any_partition_is_chosen_without_key_and_leaders():
    assert Partitioner(10, random.Random(1)).choose("orders", None, 1, 3, []) in range(3)


def test_single_partition_gets_all_records():
    partitioner = Partitioner(10, random.Random(1))
    assert {partitioner.choose("orders", None, 10, 1, [0]) for _ in range(5)} == {0}


def test_topics_choose_partitions_independently():
    partitioner = Partitioner(10**6, random.Random(3))
    chosen = {topic: partitioner.choose(topic, None, 1, 50, range(50)) for topic in "abcdef"}
    assert len(set(chosen.values())) > 1
    assert all(partitioner.choose(topic, None, 1, 50, range(50)) == number for topic, number in chosen.items())
