"""A pool on top of aiokafka, as its users write it: several messages at once, in order, and commits without gaps."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Hashable

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from bench.members.programs.reporter import Reporter

_AHEAD = 4
"""Messages of a partition that are read ahead, as a multiple of those that may be handled: they may have other keys."""
_COMMIT_SECONDS = 5.0
"""aiokafka's own default for commits."""


class Pool:
    """Handles the messages of all partitions.

    Messages of a lane (a partition, a key, or a single message) are handled one after the other. The committed offset
    is that of the lowest unfinished message.
    """

    def __init__(self, consumer: AIOKafkaConsumer, reporter: Reporter) -> None:
        self._consumer = consumer
        self._reporter = reporter
        self._task = reporter.task
        self._slots = asyncio.Semaphore(self._task.concurrency)
        self._lanes: dict[Hashable, deque[ConsumerRecord]] = {}
        # Unfinished offsets in the order of the log, and the offset after the last message.
        self._unfinished: dict[TopicPartition, dict[int, None]] = defaultdict(dict)
        self._ends: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._commit())
            for number in range(self._task.partitions):
                group.create_task(self._read(group, TopicPartition(self._task.topic, number)))

    async def _read(self, group: asyncio.TaskGroup, partition: TopicPartition) -> None:
        room = asyncio.Semaphore(_AHEAD * self._task.concurrency)
        while True:
            got = await self._consumer.getmany(partition, timeout_ms=1000)
            for message in got.get(partition, ()):
                await room.acquire()
                self._unfinished[partition][message.offset] = None
                self._ends[partition] = message.offset + 1
                lane = self._lane(message)
                if (waiting := self._lanes.get(lane)) is not None:
                    waiting.append(message)
                else:
                    self._lanes[lane] = deque([message])
                    group.create_task(self._work(lane, partition, room))

    def _lane(self, message: ConsumerRecord) -> Hashable:
        ordering = self._task.ordering
        return message.partition, {"partition": None, "key": message.key}.get(ordering, message.offset)

    async def _work(self, lane: Hashable, partition: TopicPartition, room: asyncio.Semaphore) -> None:
        waiting = self._lanes[lane]
        while waiting:
            message = waiting[0]
            async with self._slots:
                await asyncio.sleep(self._task.pace_of(message.partition))
            self._reporter.handle(message.partition, message.value)
            del self._unfinished[partition][message.offset]
            room.release()
            waiting.popleft()
        del self._lanes[lane]

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_SECONDS)
            if offsets := self.offsets():
                await self._consumer.commit(offsets)

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets to commit."""
        return {partition: next(iter(self._unfinished[partition]), end) for partition, end in self._ends.items()}


async def pool(consumer: AIOKafkaConsumer, reporter: Reporter) -> None:
    await Pool(consumer, reporter).run()
