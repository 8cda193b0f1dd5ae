"""A steady producer, a program of its own: `python -m bench.landing_day.programs.producer TASK`.

It sends events, each at its time, to the partitions in turn, and tells every fifth of a second how many it has sent, in
a line of JSON, a `Progress`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import attrs
from confluent_kafka import Producer

from bench.common.filling import Contents, pool

_TELL_SECONDS = 0.2
_TICK_SECONDS = 0.01
_FLUSH_SECONDS = 60


@attrs.frozen
class Steady:
    bootstrap: str
    topic: str
    partitions: int
    messages: int
    rate: float
    size: int

    @property
    def contents(self) -> Contents:
        return Contents(self.messages, self.size, self.partitions, values="events")

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.frozen
class Progress:
    at: float
    """When, on the monotonic clock,"""
    messages: int
    """so many had been sent."""
    failures: int = 0
    is_over: bool = False
    """Whether all have been acknowledged, but for failures."""

    @classmethod
    def of_json(cls, text: bytes) -> Progress:
        return cls(**json.loads(text))


def send(task: Steady) -> None:
    values = pool(task.contents)
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,  # so that what is sent again stays in order
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(task.topic, _FLUSH_SECONDS)  # the first message does not wait for the connection
    failures = 0

    def on_delivery(error: Any, _: Any) -> None:
        nonlocal failures
        failures += error is not None

    began = told = time.monotonic()
    _tell(Progress(began, 0))
    number = 0
    while number < task.messages:
        now = time.monotonic()
        due = min(int((now - began) * task.rate), task.messages)
        while number < due:
            value = values[number % len(values)]
            producer.produce(task.topic, value, partition=number % task.partitions, on_delivery=on_delivery)
            number += 1
        if now - told >= _TELL_SECONDS:
            told = time.monotonic()
            _tell(Progress(told, number, failures))
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    ended = time.monotonic()
    failures += producer.flush(_FLUSH_SECONDS)
    _tell(Progress(ended, number, failures, is_over=True))


def _tell(progress: Progress) -> None:
    print(json.dumps(attrs.asdict(progress)), flush=True)


if __name__ == "__main__":
    send(Steady(**json.loads(sys.argv[1])))
