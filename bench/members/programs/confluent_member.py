"""confluent-kafka's member (librdkafka), with three ways to read.

"poll" returns one message per call, "consume" up to a thousand. "threads" has one loop that consumes messages, passes
them to a thread for each partition, and pauses the partitions whose threads lag.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from bench.members.programs.reporter import Reporter
from bench.members.protocol import NEVER

_POLL_SECONDS = 1.0
_BATCH = 1000
_BATCHES_AHEAD = 2
"""Batches that may wait for a thread."""
_WAIT_SECONDS = 0.02
"""Time-out of a wait for messages. It is short, so that a paused partition that has caught up is resumed soon."""


def poll(consumer: Consumer, reporter: Reporter) -> None:
    while True:
        message = consumer.poll(_POLL_SECONDS)
        if message is not None and (pace := _handle(message, reporter)):
            time.sleep(pace)


def consume(consumer: Consumer, reporter: Reporter) -> None:
    while True:
        for message in consumer.consume(_BATCH, _WAIT_SECONDS):
            if pace := _handle(message, reporter):
                time.sleep(pace)


def threads(consumer: Consumer, reporter: Reporter) -> None:
    lanes = [Lane(consumer, reporter, partition) for partition in range(reporter.task.partitions)]
    while True:
        messages = consumer.consume(_BATCH, _WAIT_SECONDS)
        for lane in lanes:
            lane.put([message for message in messages if message.partition() == lane.partition])


class Lane:
    """Thread of one partition, and the batches that wait for it."""

    def __init__(self, consumer: Consumer, reporter: Reporter, partition: int) -> None:
        self.partition = partition
        self._consumer = consumer
        self._reporter = reporter
        self._queue: queue.Queue[list[Message]] = queue.Queue(_BATCHES_AHEAD)
        self._leftover: list[Message] = []
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, messages: list[Message]) -> None:
        """Pass messages to the thread if there is room. The partition is paused while messages are left over."""
        was_paused = bool(self._leftover)
        self._leftover += messages
        if self._leftover:
            try:
                self._queue.put_nowait(self._leftover)
                self._leftover = []
            except queue.Full:
                pass
        if was_paused != bool(self._leftover):
            change = self._consumer.resume if was_paused else self._consumer.pause
            change([TopicPartition(self._reporter.task.topic, self.partition)])

    def _run(self) -> None:
        while True:
            for message in self._queue.get():
                if pace := _handle(message, self._reporter):
                    time.sleep(pace)


def _handle(message: Message, reporter: Reporter) -> float:
    error, partition = message.error(), message.partition()
    if error is not None or partition is None:
        raise KafkaException(error)
    return reporter.handle(partition, message.value() or b"")


WAYS = {"poll": poll, "consume": consume, "threads": threads}


def fail(raised: threading.ExceptHookArgs) -> None:
    """End the program if a thread fails."""
    print(f"{raised.exc_type.__name__}: {raised.exc_value}", file=sys.stderr, flush=True)
    os._exit(1)


def main() -> None:
    threading.excepthook = fail
    reporter = Reporter("confluent-kafka")
    task = reporter.task
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": task.commits,
            **task.options,
        }
    )
    is_assigned = threading.Event()

    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        reporter.assigned(len(partitions))
        is_assigned.set()

    consumer.subscribe([task.topic], on_assign=on_assign)
    if task.pace == NEVER:
        while not is_assigned.is_set():
            consumer.poll(_WAIT_SECONDS)
        threading.Event().wait()
    WAYS[task.way](consumer, reporter)


if __name__ == "__main__":
    main()
