"""confluent-kafka (librdkafka), in one of three ways.

"poll" is a message a call, "consume" a thousand a call. "threads" is a thread for each partition, to which one loop
deals what it consumes, and pauses the partitions that are behind.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from bench.members.programs.teller import Teller
from bench.members.telling import NEVER

_SECONDS = 1.0
_BATCH = 1000
_BATCHES_AHEAD = 2
"""How much of what is consumed a thread may have before it."""
_LOOK_SECONDS = 0.02
"""How long the loop waits for messages while a partition is paused: whether it has caught up is to be noticed soon."""


def poll(consumer: Consumer, teller: Teller) -> None:
    while True:
        message = consumer.poll(_SECONDS)
        if message is not None and (pace := _handle(message, teller)):
            time.sleep(pace)


def consume(consumer: Consumer, teller: Teller) -> None:
    while True:
        for message in consumer.consume(_BATCH, _LOOK_SECONDS):
            if pace := _handle(message, teller):
                time.sleep(pace)


def threads(consumer: Consumer, teller: Teller) -> None:
    lanes = [Lane(consumer, teller, partition) for partition in range(teller.task.partitions)]
    while True:
        messages = consumer.consume(_BATCH, _LOOK_SECONDS)
        for lane in lanes:
            lane.put([message for message in messages if message.partition() == lane.partition])


class Lane:
    """One partition's thread."""

    def __init__(self, consumer: Consumer, teller: Teller, partition: int) -> None:
        self.partition = partition
        self._consumer = consumer
        self._teller = teller
        self._ahead: queue.Queue[list[Message]] = queue.Queue(_BATCHES_AHEAD)
        self._left: list[Message] = []
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, messages: list[Message]) -> None:
        """Hand over what there is room for; the partition is paused while something is left."""
        was_paused = bool(self._left)
        self._left += messages
        if self._left:
            try:
                self._ahead.put_nowait(self._left)
                self._left = []
            except queue.Full:
                pass
        if was_paused != bool(self._left):
            change = self._consumer.resume if was_paused else self._consumer.pause
            change([TopicPartition(self._teller.task.topic, self.partition)])

    def _run(self) -> None:
        while True:
            for message in self._ahead.get():
                if pace := _handle(message, self._teller):
                    time.sleep(pace)


def _handle(message: Message, teller: Teller) -> float:
    error, partition = message.error(), message.partition()
    if error is not None or partition is None:
        raise KafkaException(error)
    return teller.handle(partition, message.value() or b"")


WAYS = {"poll": poll, "consume": consume, "threads": threads}


def fail(raised: threading.ExceptHookArgs) -> None:
    """A thread's failure is the program's."""
    print(f"{raised.exc_type.__name__}: {raised.exc_value}", file=sys.stderr, flush=True)
    os._exit(1)


def main() -> None:
    threading.excepthook = fail
    teller = Teller("confluent-kafka")
    task = teller.task
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
        teller.assigned(len(partitions))
        is_assigned.set()

    consumer.subscribe([task.topic], on_assign=on_assign)
    if task.pace == NEVER:
        while not is_assigned.is_set():
            consumer.poll(_LOOK_SECONDS)
        threading.Event().wait()
    WAYS[task.way](consumer, teller)


if __name__ == "__main__":
    main()
