"""Order of messages and offsets to commit in the pool on top of aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.members.programs.aiokafka_pool import Pool
from bench.members.programs.reporter import Reporter
from bench.members.protocol import MemberTask

KEYS = (b"a", b"b", b"a", b"a", b"b", b"c")
PARTITIONS = [TopicPartition("t", number) for number in range(2)]


class Done(Exception):
    """Raised once all messages are handled."""


class Run:
    """A pool that uses this object as its consumer and its reporter."""

    def __init__(self, ordering: str) -> None:
        self.task = MemberTask("", "t", "g", len(PARTITIONS), ordering=ordering, concurrency=4)
        self.handled: dict[int, list[int]] = {0: [], 1: []}
        self._buffered = {
            partition: [
                SimpleNamespace(partition=partition.partition, offset=offset, key=key, value=b"%d" % offset)
                for offset, key in enumerate(KEYS)
            ]
            for partition in PARTITIONS
        }
        self.pool = Pool(cast(AIOKafkaConsumer, self), cast(Reporter, self))

    async def getmany(self, partition: TopicPartition, timeout_ms: int) -> dict[TopicPartition, Sequence[Any]]:
        if messages := self._buffered.pop(partition, None):
            return {partition: messages}
        await asyncio.Event().wait()
        return {}

    def handle(self, partition: int, value: bytes) -> None:
        # The offset to commit is the first unfinished one; the message is finished after this call.
        handled = self.handled[partition]
        unfinished = [offset for offset in range(len(KEYS)) if offset not in handled]
        assert self.pool.offsets()[PARTITIONS[partition]] == unfinished[0]
        handled.append(int(value))
        if sum(map(len, self.handled.values())) == len(PARTITIONS) * len(KEYS):
            raise Done

    def run(self) -> dict[int, list[int]]:
        with pytest.RaisesGroup(Done):
            asyncio.run(self.pool.run())
        return self.handled


def test_messages_of_a_partition_are_handled_in_order() -> None:
    assert Run("partition").run() == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}


def test_messages_of_a_key_are_handled_in_order() -> None:
    for handled in Run("key").run().values():
        assert sorted(handled) == [0, 1, 2, 3, 4, 5]
        assert [offset for offset in handled if KEYS[offset] == b"a"] == [0, 2, 3]
        assert handled != sorted(handled)


def test_messages_without_an_order_are_all_handled() -> None:
    assert [sorted(handled) for handled in Run("none").run().values()] == [[0, 1, 2, 3, 4, 5]] * 2
