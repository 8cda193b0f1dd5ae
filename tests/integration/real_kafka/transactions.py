"""librdkafka as a transactional producer that records the outcome of each record; and a Java producer without that."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import attrs
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.integration.real_kafka.cluster import RealKafka, ToolError
from tests.integration.real_kafka.jars import kafka_jars
from tests.integration.real_kafka.node import java
from tests.integration.real_kafka.producing import Record

_SECONDS = 30.0
_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


@attrs.define
class Written:
    """The records that writers have written, by partition.

    `everywhere` has all of them. `committed` has those whose transaction was committed, and those without one.
    """

    everywhere: defaultdict[int, list[Record]] = attrs.field(factory=lambda: defaultdict(list))
    committed: defaultdict[int, list[Record]] = attrs.field(factory=lambda: defaultdict(list))

    def of(self, isolation_level: str, partitions: int) -> dict[int, list[Record]]:
        """Return the records of each partition, by offset, that a consumer of this isolation level has to read."""
        chosen = self.committed if isolation_level == "read_committed" else self.everywhere
        return {partition: sorted(chosen[partition]) for partition in range(partitions)}


class Writer:
    """A producer that adds each record that it has written to `written`. It uses transactions if it has an id."""

    def __init__(
        self, kafka: RealKafka, topic: str, written: Written, codec: str, transactional_id: str | None = None
    ) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(kafka.bootstrap_servers),
            "compression.type": codec,
            "enable.idempotence": True,
            "log_level": 0,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
        self._producer = Producer(settings)
        self._topic = topic
        self._written = written
        self._is_transactional = transactional_id is not None
        if self._is_transactional:
            self._producer.init_transactions(_SECONDS)
        self._pending: list[tuple[int, Record]] = []
        self.is_open = False

    def write(self, partition: int, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Write keys and values, and wait until they are in the log. Begin a transaction if one is needed."""
        if self._is_transactional and not self.is_open:
            self._producer.begin_transaction()
            self.is_open = True
        for key, value in records:
            self._producer.produce(self._topic, value, key, partition, on_delivery=self._on_delivery)
        if self._producer.flush(_SECONDS):
            raise RuntimeError("records were not sent")
        if not self._is_transactional:
            self._settle(commits=True)

    def end(self, *, commits: bool) -> None:
        """End the transaction."""
        if commits:
            self._producer.commit_transaction(_SECONDS)
        else:
            self._producer.abort_transaction(_SECONDS)
        self.is_open = False
        self._settle(commits=commits)

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            raise KafkaException(error)
        record = Record.of(message)
        self._pending.append((message.partition(), record))
        self._written.everywhere[message.partition()].append(record)

    def _settle(self, *, commits: bool) -> None:
        for partition, record in self._pending if commits else ():
            self._written.committed[partition].append(record)
        self._pending.clear()


def copy_by_java(kafka: RealKafka, source: str, partition: int, target: str, transaction_size: int) -> int:
    """Copy a partition to the same partition of another topic with a Java producer; return the number of records.

    The producer uses transactions, aborts about every third, and repeats the aborted ones. Raises ToolError.
    """
    options = {
        "--broker-list": ",".join(kafka.bootstrap_servers),
        "--input-topic": source,
        "--input-partition": str(partition),
        "--output-topic": target,
        "--transactional-id": f"{target}-java",
        "--consumer-group": f"{target}-java",
        "--transaction-size": str(transaction_size),
    }
    flat = [text for option in options.items() for text in option]
    command = java(kafka_jars(kafka.version), _COPIER, *flat, "--enable-random-aborts")
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * _SECONDS, check=False)
    if done.returncode != 0:
        raise ToolError(f"the copier exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return int(reports[-1]["totalProcessed"])
