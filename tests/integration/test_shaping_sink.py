"""Messages of Confluent's serializer become rows of a table, configured only by the options of an app file.

Uses Apache Kafka, a schema registry, Spark, and everything that may be in a topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
import trio
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sarameya import Config, ConsumerGroup
from sarameya_handlers import ParquetTable, SparkSink
from sarameya_handlers.audit.verify.account import Account, account_of
from sarameya_handlers.audit.verify.fact_collection import Audit, gather
from sarameya_handlers.audit.verify.verdict import is_proved, judge
from tests.integration.lakes import avro_jars
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.real_kafka.transactions import Writer, Written
from tests.integration.real_registry import RealRegistry

pytestmark = [
    pytest.mark.cold,
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DEADLINE = 240.0
TOPIC = "shaped-orders"

FIELDS = [{"name": "id", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
V1 = {"type": "record", "name": "Order", "fields": FIELDS}
V2 = {**V1, "fields": [*FIELDS, {"name": "price", "type": ["null", "double"], "default": None}]}
BAD = {3: b'{"id": 1}', 40: b"", 41: b"\x00\x7f\xff\xff\xff\x00", 77: b"\x00\xff\xff\xff\xff\x00"}
"""Bad values, by their positions among the others."""
TOMBSTONES = (5, 50)
COUNT = 100
ABORTED = 3
"""Number of offsets of an aborted transaction: two records and its marker."""
DAY = 86_400_000

QUERY = """
select value.id, value.price, offset, topic, partition,
       case when date(value.at) between '2020-01-01' and '2029-12-31' then date(value.at) end as day
from batch where value is not null
"""


@pytest.fixture
def client(real_registry: RealRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": real_registry.url}) as client:
        yield client


def values(client: SchemaRegistryClient) -> list[bytes | None]:
    """Return orders of two schema versions, with valid and invalid days, among tombstones and bad values."""
    context = SerializationContext(TOPIC, MessageField.VALUE)
    old, new = (AvroSerializer(client, json.dumps(schema)) for schema in (V1, V2))
    encoded: list[bytes | None] = []
    for n in range(COUNT):
        days = 19_700 + n % 3 if n % 2 else -20_000 * n
        order: dict[str, Any] = {"id": n, "at": days * DAY}
        encoded.append(new({**order, "price": n / 2}, context) if n % 3 else old(order, context))
    for place in TOMBSTONES:
        encoded[place] = None
    return [BAD.get(place, value) for place, value in enumerate(encoded)]


async def test_topic_lands_as_typed_rows_with_dead_letters(
    real_kafka: RealKafka, real_registry: RealRegistry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    real_kafka.create_topic(TOPIC, 1)
    await trio.to_thread.run_sync(produce, real_kafka, values(client))
    options = {
        "path": str(tmp_path / "orders"),
        "max_age": 1.0,
        "value_format": "avro",
        "registry": {"url": real_registry.url},
        "transform_sql": QUERY,
        "partition_by": ["day"],
        "max_partitions": 5,
        "dead_letters": {"path": str(tmp_path / "dead")},
        "spark": {
            "master": "local[2]",
            "conf": {"spark.jars": ",".join(map(str, avro_jars())), "spark.sql.shuffle.partitions": 2},
        },
    }
    with trio.fail_after(DEADLINE):
        async with (
            SparkSink.from_options(options) as sink,
            ConsumerGroup(
                real_kafka.bootstrap_servers,
                "shaped-landing",
                Config(offset_initial="oldest", session_timeout=60.0, isolation_level="read_committed"),
            ) as group,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(group.consume, [TOPIC], sink)
            await real_kafka.until_committed("shaped-landing", COUNT + ABORTED + 1, DEADLINE)
            nursery.cancel_scope.cancel()

    landed_offsets = {place for place in range(COUNT) if place not in BAD and place not in TOMBSTONES}
    landed = table(tmp_path / "orders")
    rows = {row["offset"]: row for row in landed.to_pylist()}
    assert landed.num_rows == len(rows)
    assert {offset: (row["id"], row["price"]) for offset, row in rows.items()} == {
        n: (n, n / 2 if n % 3 else None) for n in landed_offsets
    }
    assert {str(row["day"]) for row in rows.values()} == {"2023-12-09", "2023-12-10", "2023-12-11", "None"}
    dead = {letter["offset"]: letter for letter in table(tmp_path / "dead").to_pylist()}
    assert {offset: letter["value"] for offset, letter in dead.items()} == BAD
    assert [letter["error"] for _, letter in sorted(dead.items())] == [
        "value: it has no schema registry header: its first byte is 0x7b, not 0x00",
        "value: it ends within its schema registry header, after 0 bytes",
        f"value: its schema 2147483647 is unknown to Registry({real_registry.url})",
        "value: its header has the schema id -1, which no schema has",
    ]
    facts = await gather(Audit(table=ParquetTable(tmp_path / "orders")), 0.0)
    assert is_proved(judge(facts))
    assert facts.counts is not None
    assert account_of(facts.chains[0], facts.counts) == Account(
        with_rows=len(landed_offsets), dead_letters=len(BAD), dropped=len(TOMBSTONES) + 1, without_record=ABORTED
    )


def produce(kafka: RealKafka, values: list[bytes | None]) -> None:
    """Send the values, two records whose transaction is aborted, and a tombstone in the next transaction.

    The next transaction begins only after the marker of the first one was written.
    """
    send(kafka, TOPIC, [{"value": value} for value in values])
    writer = Writer(kafka, TOPIC, Written(), "none", "aborts")
    writer.write(0, [(None, b"aborted")] * (ABORTED - 1))
    writer.end(commits=False)
    writer.write(0, [(b"last", None)])
    writer.end(commits=True)


def table(directory: Path) -> pa.Table:
    return pyarrow.dataset.dataset(directory, format="parquet", partitioning="hive").to_table()
