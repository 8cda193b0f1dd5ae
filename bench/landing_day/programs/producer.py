"""A steady producer, as a program of its own: `python -m bench.landing_day.programs.producer TASK`.

It sends events at a steady rate, to the partitions in turn. Every fifth of a second it prints how many it has sent: a
`Progress`, as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import attrs
from confluent_kafka import Producer

from bench.common.filling import Contents, pool

_REPORT_SECONDS = 0.2
_TICK_SECONDS = 0.01
_FLUSH_SECONDS = 60


@attrs.frozen
class ProducerTask:
    """Topic to fill, and the rate."""

    bootstrap: str
    topic: str
    partitions: int
    messages: int
    rate: float
    size: int

    @property
    def contents(self) -> Contents:
        """Contents of the topic at the end."""
        return Contents(self.messages, self.size, self.partitions, values="events")

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.frozen
class Progress:
    """Report of the producer."""

    at: float
    """Time of the report, in seconds of the monotonic clock."""
    messages: int
    """Number of messages sent by then."""
    failures: int = 0
    """Number of messages that could not be sent."""
    is_over: bool = False
    """True in the last report: each message is acknowledged, or has failed."""

    @classmethod
    def of_json(cls, text: bytes) -> Progress:
        return cls(**json.loads(text))


def send(task: ProducerTask) -> None:
    values = pool(task.contents)
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,  # keeps the order if a batch is sent again
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(task.topic, _FLUSH_SECONDS)  # the first message does not wait for the connection
    failures = 0

    def on_delivery(error: Any, _: Any) -> None:
        nonlocal failures
        failures += error is not None

    start = reported = time.monotonic()
    _report(Progress(start, 0))
    number = 0
    while number < task.messages:
        now = time.monotonic()
        due = min(int((now - start) * task.rate), task.messages)
        while number < due:
            value = values[number % len(values)]
            producer.produce(task.topic, value, partition=number % task.partitions, on_delivery=on_delivery)
            number += 1
        if now - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            _report(Progress(reported, number, failures))
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    ended = time.monotonic()
    unsent = producer.flush(_FLUSH_SECONDS)  # which calls `on_delivery`
    failures += unsent
    _report(Progress(ended, number, failures, is_over=True))


def _report(progress: Progress) -> None:
    print(json.dumps(attrs.asdict(progress)), flush=True)


if __name__ == "__main__":
    send(ProducerTask(**json.loads(sys.argv[1])))
