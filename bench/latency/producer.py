"""A steady producer, a program of its own: `python -m bench.latency.producer TASK`.

It sends so many messages with stamps, one each 1 / rate seconds, to the partitions in turn, and ends with one line of
JSON, a `Sent`. Each message has its time, which does not depend on when those before it were sent, so that what holds
up one of them is not hidden by fewer of them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import attrs
from confluent_kafka import Producer

from bench.latency.sending import Sending, Sent
from bench.members.stamps import stamped

_FLUSH_SECONDS = 20


def send(task: Sending) -> Sent:
    producer = Producer({"bootstrap.servers": task.bootstrap, "linger.ms": 0})
    producer.list_topics(task.topic, _FLUSH_SECONDS)  # the first message does not wait for the connection
    acknowledged: list[int] = []
    failures = 0
    began = time.monotonic()
    for sequence in range(task.messages):
        due = began + sequence / task.rate
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        sent = time.monotonic_ns()

        def on_delivery(error: Any, _: Any, sent: int = sent) -> None:
            nonlocal failures
            failures += error is not None
            acknowledged.append(time.monotonic_ns() - sent)

        value = stamped(sequence, task.size)
        producer.produce(task.topic, value, partition=sequence % task.partitions, on_delivery=on_delivery)
    seconds = time.monotonic() - began
    producer.flush(_FLUSH_SECONDS)
    return Sent(failures, seconds, tuple(acknowledged))


if __name__ == "__main__":
    print(json.dumps(attrs.asdict(send(Sending(**json.loads(sys.argv[1]))))), flush=True)
