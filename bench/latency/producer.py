"""A steady producer, as a program of its own: `python -m bench.latency.producer TASK`.

It sends messages with stamps, one every 1 / rate seconds, to the partitions in turn. Then it prints one line of JSON, a
`Sent`. The due time of a message does not depend on when earlier messages were sent. Otherwise a delay would reduce the
number of messages, and hide itself.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import attrs
from confluent_kafka import Producer

from bench.latency.sending import SendTask, Sent
from bench.members.stamps import stamped

_FLUSH_SECONDS = 20


def send(task: SendTask) -> Sent:
    """Send the messages, and return the result."""
    # The queue has room for all messages: without a rate, they are sent at once.
    options = {"linger.ms": 0, "queue.buffering.max.messages": max(100_000, task.messages)}
    producer = Producer({"bootstrap.servers": task.bootstrap, **options})
    producer.list_topics(task.topic, _FLUSH_SECONDS)  # the first message does not wait for the connection
    acknowledged: dict[int, int] = {}
    failures = 0
    keys = [b"customer%04d" % number for number in task.key_numbers()] if task.keys else [None] * task.messages
    start = time.monotonic()
    for sequence, key in enumerate(keys):
        due = start + (sequence / task.rate if task.rate else 0.0)
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        sent = time.monotonic_ns()

        def on_delivery(error: Any, _: Any, sequence: int = sequence, sent: int = sent) -> None:
            nonlocal failures
            failures += error is not None
            acknowledged[sequence] = time.monotonic_ns() - sent

        value = stamped(sequence, task.size)
        partition = sequence % task.partitions
        producer.produce(task.topic, value, key, partition=partition, on_delivery=on_delivery)
    seconds = time.monotonic() - start
    producer.flush(_FLUSH_SECONDS)
    return Sent(failures, seconds, tuple(late for _, late in sorted(acknowledged.items())))


if __name__ == "__main__":
    print(json.dumps(attrs.asdict(send(SendTask(**json.loads(sys.argv[1]))))), flush=True)
