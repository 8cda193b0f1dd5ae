"""Keys of the producer's messages."""

from __future__ import annotations

from bench.latency.sending import SendTask

TASK = SendTask("127.0.0.1:9092", "t", partitions=4, messages=4_000, rate=0, size=200, keys=100)


def test_requested_number_of_keys_is_used_each_in_one_partition() -> None:
    keys = TASK.key_numbers()

    assert len(keys) == TASK.messages
    assert set(keys) == set(range(100))
    assert all(key % 4 == sequence % 4 for sequence, key in enumerate(keys))


def test_keys_are_the_same_in_each_run() -> None:
    assert TASK.key_numbers() == TASK.key_numbers()
