"""aiokafka's member, with three ways to read.

"loop" has one loop over all partitions, "tasks" a task with getmany for each partition. "pool" handles several messages
of a partition at once.
"""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from bench.members.programs.aiokafka_pool import pool
from bench.members.programs.reporter import Reporter
from bench.members.protocol import NEVER


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._reporter.assigned(len(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Report nothing."""


async def loop(consumer: AIOKafkaConsumer, reporter: Reporter) -> None:
    async for message in consumer:
        if pace := reporter.handle(message.partition, message.value):
            await asyncio.sleep(pace)


async def tasks(consumer: AIOKafkaConsumer, reporter: Reporter) -> None:
    async with asyncio.TaskGroup() as group:
        for partition in range(reporter.task.partitions):
            group.create_task(_task(consumer, reporter, partition))


async def _task(consumer: AIOKafkaConsumer, reporter: Reporter, number: int) -> None:
    partition = TopicPartition(reporter.task.topic, number)
    pace = reporter.task.pace_of(number)
    while True:
        for messages in (await consumer.getmany(partition, timeout_ms=1000)).values():
            for _ in messages:
                reporter.counts[number] += 1
                if pace:
                    await asyncio.sleep(pace)


WAYS = {"loop": loop, "tasks": tasks, "pool": pool}


async def main() -> None:
    reporter = Reporter("aiokafka")
    task = reporter.task
    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        auto_offset_reset="earliest",
        enable_auto_commit=task.commits and task.way != "pool",  # a pool commits by itself
        **task.options,
    )
    consumer.subscribe([task.topic], listener=Listener(reporter))
    async with consumer:
        if task.pace == NEVER:
            await asyncio.Event().wait()
        await WAYS[task.way](consumer, reporter)


if __name__ == "__main__":
    asyncio.run(main())
