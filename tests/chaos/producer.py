"""The producer of a run: steady with bursts, idempotent, acks from all replicas, a sequence number in each value."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import trio
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.chaos.comparison import value_of

RATE = 100.0
"""Records a second: few, since two processors run seven JVMs."""

_TICK_SECONDS = 0.1
_BURST = 3000
_BURST_SECONDS = 45.0
_FLUSH_SECONDS = 120.0
_MAX_UNACKNOWLEDGED = 50_000


class ChaosProducer:
    """A producer for one topic. `ends` has the acknowledged log end of each partition."""

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
        due, since_burst = 0.0, 0.0
        while True:
            due += RATE * _TICK_SECONDS
            since_burst += _TICK_SECONDS
            if since_burst >= _BURST_SECONDS:
                due, since_burst = due + _BURST, 0.0
            while due >= 1 and len(self._producer) < _MAX_UNACKNOWLEDGED:
                self._send()
                due -= 1
            self._poll()
            await trio.sleep(_TICK_SECONDS)

    def _poll(self) -> None:
        try:
            self._producer.poll(0)
        except SystemError as error:
            # A bug of confluent-kafka 2.x, seen once in 40 minutes of broker crashes. Later delivery reports arrive.
            if "_PyErr_SetObject" not in str(error):
                raise

    async def finish(self, last: int = 0) -> None:
        """Send `last` more records, and wait until the brokers have acknowledged all records."""
        for _ in range(last):
            self._send()
        deadline = trio.current_time() + _FLUSH_SECONDS
        while (unacknowledged := len(self._producer)) and trio.current_time() < deadline:
            self._poll()
            await trio.sleep(_TICK_SECONDS)
        if unacknowledged:
            self.failures.append(f"{unacknowledged} records were not acknowledged within {_FLUSH_SECONDS:g} s")

    def _send(self) -> None:
        partition = self._rng.randrange(self.partitions)
        value = value_of(self._sequences[partition], self._rng.randrange(20, 300))
        key = self._rng.choice((None, b"key-%d" % self._rng.randrange(50)))
        try:
            self._producer.produce(self.topic, value, key, partition, on_delivery=self._on_delivery)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return  # the partition was added, and the producer's metadata does not list it yet
        self._sequences[partition] += 1

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            partition = message.partition()
            self.ends[partition] = max(self.ends.get(partition, 0), message.offset() + 1)
