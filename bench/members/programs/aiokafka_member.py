"""aiokafka: one loop over all partitions ("loop"), or a task for each with getmany ("tasks")."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from bench.members.programs.teller import Teller
from bench.members.telling import NEVER


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._teller.assigned(len(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Tells nothing."""


async def loop(consumer: AIOKafkaConsumer, teller: Teller) -> None:
    async for message in consumer:
        if pace := teller.handle(message.partition, message.value):
            await asyncio.sleep(pace)


async def tasks(consumer: AIOKafkaConsumer, teller: Teller) -> None:
    async with asyncio.TaskGroup() as group:
        for partition in range(teller.task.partitions):
            group.create_task(_task(consumer, teller, partition))


async def _task(consumer: AIOKafkaConsumer, teller: Teller, number: int) -> None:
    partition = TopicPartition(teller.task.topic, number)
    pace = teller.task.pace_of(number)
    while True:
        for messages in (await consumer.getmany(partition, timeout_ms=1000)).values():
            for _ in messages:
                teller.counts[number] += 1
                if pace:
                    await asyncio.sleep(pace)


WAYS = {"loop": loop, "tasks": tasks}


async def main() -> None:
    teller = Teller("aiokafka")
    task = teller.task
    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        auto_offset_reset="earliest",
        enable_auto_commit=task.commits,
        **task.options,
    )
    consumer.subscribe([task.topic], listener=Listener(teller))
    async with consumer:
        if task.pace == NEVER:
            await asyncio.Event().wait()
        await WAYS[task.way](consumer, teller)


if __name__ == "__main__":
    asyncio.run(main())
