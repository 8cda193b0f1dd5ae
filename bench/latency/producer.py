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
    producer = Producer({"bootstrap.servers": task.bootstrap, "linger.ms": 0})
    producer.list_topics(task.topic, _FLUSH_SECONDS)  # the first message does not wait for the connection
    acknowledged: dict[int, int] = {}
    failures = 0
    start = time.monotonic()
    for sequence in range(task.messages):
        due = start + sequence / task.rate
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        sent = time.monotonic_ns()

        def on_delivery(error: Any, _: Any, sequence: int = sequence, sent: int = sent) -> None:
            nonlocal failures
            failures += error is not None
            acknowledged[sequence] = time.monotonic_ns() - sent

        value = stamped(sequence, task.size)
        producer.produce(task.topic, value, partition=sequence % task.partitions, on_delivery=on_delivery)
    seconds = time.monotonic() - start
    producer.flush(_FLUSH_SECONDS)
    return Sent(failures, seconds, tuple(late for _, late in sorted(acknowledged.items())))


if __name__ == "__main__":
    print(json.dumps(attrs.asdict(send(SendTask(**json.loads(sys.argv[1]))))), flush=True)
