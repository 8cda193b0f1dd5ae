"""aiokafka: `async for`, or getmany in a loop."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer

from bench.consume.programs.reading import Stopwatch, Task


async def iterate(consumer: AIOKafkaConsumer, wanted: int, watch: Stopwatch) -> tuple[int, int]:
    message = await anext(consumer)
    watch.first()
    count, size = 1, len(message.key) + len(message.value)
    if count == wanted:
        return count, size
    async for message in consumer:
        count += 1
        size += len(message.key) + len(message.value)
        if count == wanted:
            break
    return count, size


async def get_many(consumer: AIOKafkaConsumer, wanted: int, watch: Stopwatch) -> tuple[int, int]:
    count = size = 0
    while count < wanted:
        got = await consumer.getmany(timeout_ms=1000)
        if got and not count:
            watch.first()
        for messages in got.values():
            for message in messages:
                count += 1
                size += len(message.key) + len(message.value)
    return count, size


WAYS = {"iterator": iterate, "getmany": get_many}


async def main(task: Task) -> None:
    watch = Stopwatch()
    consumer = AIOKafkaConsumer(
        task.topic,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        auto_offset_reset="earliest",
    )
    async with consumer:
        count, size = await WAYS[task.way](consumer, task.messages, watch)
        watch.last()
    watch.report(count, size, "aiokafka")


if __name__ == "__main__":
    asyncio.run(main(Task.of_command_line()))
