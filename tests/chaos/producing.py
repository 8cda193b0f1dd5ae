"""A steady producer with bursts: idempotent, acknowledged by all replicas, a sequence number in each value."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import trio
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.chaos.comparing import value_of

RATE = 100.0
"""Records a second, for two processors that run seven JVMs."""

_TICK_SECONDS = 0.1
_BURST = 3000
_BURST_SECONDS = 45.0
_FLUSH_SECONDS = 120.0
_MOST_WAITING = 50_000


class Producing:
    """Records for a topic. `ends` says per partition what the brokers have acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.ends: dict[int, int] = {}
        self.failures: list[str] = []
        self._rng = random.Random(f"{seed} producer")
        self._sequences: Counter[int] = Counter()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "topic.metadata.refresh.interval.ms": 5000,
                "message.timeout.ms": 600_000,
                "log_level": 0,
            }
        )

    async def run(self) -> None:
        """Produce until cancelled."""
        owed, bursts = 0.0, 0.0
        while True:
            owed += RATE * _TICK_SECONDS
            bursts += _TICK_SECONDS
            if bursts >= _BURST_SECONDS:
                owed, bursts = owed + _BURST, 0.0
            while owed >= 1 and len(self._producer) < _MOST_WAITING:
                self._send()
                owed -= 1
            self._poll()
            await trio.sleep(_TICK_SECONDS)

    def _poll(self) -> None:
        try:
            self._producer.poll(0)
        except SystemError as error:
            # Raised by confluent-kafka 2.x itself, once in 40 minutes of dying brokers. Later reports still arrive.
            if "_PyErr_SetObject" not in str(error):
                raise

    async def finish(self, last: int = 0) -> None:
        """Send so many records more, and wait until all that was sent is acknowledged."""
        for _ in range(last):
            self._send()
        if left := await trio.to_thread.run_sync(self._producer.flush, _FLUSH_SECONDS):
            self.failures.append(f"{left} records were not acknowledged within {_FLUSH_SECONDS:g} s")

    def _send(self) -> None:
        partition = self._rng.randrange(self.partitions)
        value = value_of(self._sequences[partition], self._rng.randrange(20, 300))
        key = self._rng.choice((None, b"key-%d" % self._rng.randrange(50)))
        try:
            self._producer.produce(self.topic, value, key, partition, on_delivery=self._on_delivery)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return  # one that was added, of which the producer's metadata does not tell yet
        self._sequences[partition] += 1

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            place = message.partition()
            self.ends[place] = max(self.ends.get(place, 0), message.offset() + 1)
