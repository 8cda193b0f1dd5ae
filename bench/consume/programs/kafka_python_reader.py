"""kafka-python: its iterator. It needs crc32c here, without which it checks CRCs in Python, four times as slow."""

from __future__ import annotations

from importlib.metadata import version

from kafka import KafkaConsumer

from bench.consume.programs.reading import Stopwatch, Task


def main(task: Task) -> None:
    watch = Stopwatch()
    consumer = KafkaConsumer(
        task.topic,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        auto_offset_reset="earliest",
    )
    count = size = 0
    for message in consumer:
        if not count:
            watch.first()
        count += 1
        size += len(message.key) + len(message.value)
        if count == task.messages:
            break
    watch.last()
    consumer.close()
    watch.report(count, size, "kafka-python", f" (crc32c {version('crc32c')})")


if __name__ == "__main__":
    main(Task.of_command_line())
