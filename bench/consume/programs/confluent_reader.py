"""confluent-kafka (librdkafka): `poll` with its defaults, or `consume` of 1,000 messages, tuned.

With its defaults librdkafka is idle most of the time here: with `queued.min.messages` (100,000) of a partition it stops
fetching, and checks again only after `fetch.queue.backoff.ms` (1,000). Tuned, it checks again at once.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Message, libversion

from bench.consume.programs.reading import Stopwatch, Task

_SECONDS = 1.0
_BATCH = 1000


def poll(consumer: Consumer, wanted: int, watch: Stopwatch) -> tuple[int, int]:
    count = size = 0
    while count < wanted:
        message = consumer.poll(_SECONDS)
        if message is None:
            continue
        if not count:
            watch.first()
        size += _size(message)
        count += 1
    return count, size


def consume(consumer: Consumer, wanted: int, watch: Stopwatch) -> tuple[int, int]:
    count = size = 0
    while count < wanted:
        # At most the remaining messages: `consume` waits for the full number.
        messages = consumer.consume(min(_BATCH, wanted - count), _SECONDS)
        if messages and not count:
            watch.first()
        for message in messages:
            size += _size(message)
        count += len(messages)
    return count, size


def _size(message: Message) -> int:
    if (error := message.error()) is not None:
        raise KafkaException(error)
    return len(message.key() or b"") + len(message.value() or b"")


WAYS = {"poll": poll, "tuned": consume}
TUNED = {"fetch.queue.backoff.ms": 0}


def main(task: Task) -> None:
    watch = Stopwatch()
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            **(TUNED if task.way == "tuned" else {}),
        }
    )
    consumer.subscribe([task.topic])
    count, size = WAYS[task.way](consumer, task.messages, watch)
    watch.last()
    consumer.close()
    watch.report(count, size, "confluent-kafka", f" (librdkafka {libversion()[0]})")


if __name__ == "__main__":
    main(Task.of_command_line())
