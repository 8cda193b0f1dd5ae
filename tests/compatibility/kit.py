"""The log, the commits and the tables that the tests and the recorder of fixtures share.

The log is computed (`value`), so no fixture stores it. Tables and commits contain the ids of the topic and the cluster:
`replay` sets these ids in a new cluster.
"""

from __future__ import annotations

import json
import shutil
import struct
import tarfile
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import trio
from kafka.record import MemoryRecords

from sarameya import CommittedOffset, Config, ConsumerGroup, Event, GroupAdmin, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya_handlers import DeltaTable, IcebergTable, Layout, ParquetTable, SparkSink
from sarameya_handlers.landing.dead_letters.letters import DeadLetters
from sarameya_handlers.landing.dead_letters.topic import TopicDeadLetters
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Table
from tests.compatibility.iceberg_relocation import relocate
from tests.integration.lakes import ICEBERG_CATALOG

FIXTURES = Path(__file__).with_name("fixtures")
PLACE = "/sarameya-fixtures/table"
"""The table's directory in the metadata of recorded Iceberg tables. `Store.unpack` replaces it by the real path."""

TOPIC, DEAD, OFFSETS_TOPIC = "orders", "orders.dead", "__consumer_offsets"
PARTITIONS = (0, 1)
KINDS = ("parquet", "delta", "iceberg")
STATES = ("plain", "lived")
"""A "plain" table has landed records only; a "lived" table was also compacted, restored, and so on."""
OLDER = "older"
"""The plain table as builds before 2026-11-24 wrote it: no `cluster_id` and `begin` in origins, no schemas."""
NAMES = {"plain": "sarameya", OLDER: "sarameya", "lived": "eu/orders"}
"""State -> the sink's name. Each kind of table quotes the slash in "eu/orders" differently."""

FIRST, SECOND, THIRD, LATER = (4, 4), (8, 6), (12, 8), (16, 12)
"""Log ends of both partitions: at three times while tables were recorded, and after the old build's next links."""
POISON = TopicPartition(TOPIC, 1), 3
"""Partition and offset of the record whose value is not JSON."""

_DEADLINE = 600.0


@attrs.frozen
class Recorded:
    """The content of `cluster.json`: ids, the time of recording, and each group's records of `__consumer_offsets`."""

    cluster_id: str
    topic_ids: Mapping[str, str]
    at: float
    commits: Mapping[str, tuple[tuple[bytes, bytes], ...]]

    @classmethod
    def read(cls) -> Recorded:
        document = json.loads((FIXTURES / "cluster.json").read_text(encoding="utf-8"))
        commits = {
            group: tuple((bytes.fromhex(row["key"]), bytes.fromhex(row["value"])) for row in rows)
            for group, rows in document["commits"].items()
        }
        return cls(document["cluster_id"], document["topic_ids"], document["at"], commits)

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return dict(read_commit(key, value) for key, value in self.commits[group])


def read_commit(key: bytes, value: bytes) -> tuple[TopicPartition, CommittedOffset]:
    """Decode a record of `__consumer_offsets` (OffsetCommitKey v1, OffsetCommitValue v3) without the broker's code."""
    _, rest = _text(key[2:])
    topic, rest = _text(rest)
    (partition,) = struct.unpack(">i", rest)
    version, offset, epoch = struct.unpack_from(">hqi", value)
    assert version == 3
    metadata, _ = _text(value[14:])
    return TopicPartition(topic, partition), CommittedOffset(offset, metadata, epoch)


def _text(data: bytes) -> tuple[str, bytes]:
    size = int.from_bytes(data[:2], "big")
    return data[2 : 2 + size].decode(), data[2 + size :]


# -- the log -------------------------------------------------------------------------------------


def value(partition: int, offset: int) -> bytes:
    """Return the value of a record of the log."""
    if (TopicPartition(TOPIC, partition), offset) == POISON:
        return b"no json"
    parity = "odd" if offset % 2 else "even"
    return json.dumps({"id": offset, "text": f"{partition}-{offset}", "parity": parity, "more": "x"}).encode()


def grow(cluster: EmbeddedCluster, ends: Iterable[int]) -> None:
    """Write records until the partitions have these log ends."""
    for partition, end in zip(PARTITIONS, ends, strict=True):
        for offset in range(cluster.log(TOPIC, partition).end_offset, end):
            headers = [("n", str(offset).encode())] if offset % 2 else []
            stamp = 1_764_000_000_000 + offset * 1000
            cluster.produce(TOPIC, partition, value(partition, offset), b"k%d" % offset, headers, timestamp=stamp)


def new_cluster(*, at: float | None = None) -> EmbeddedCluster:
    """Return a cluster with both topics, and with two brokers, so that a group's coordinator can move.

    Args:
        at: the fixed time of the cluster's clock; None for the real time.
    """
    topics = {TOPIC: len(PARTITIONS), DEAD: 1}
    return EmbeddedCluster(topics=topics, brokers=2, wall_clock=time.time if at is None else lambda: at)


def replay(
    cluster: EmbeddedCluster, recorded: Recorded, ends: Iterable[int] = THIRD, *, with_commits: bool = True
) -> None:
    """Set up a cluster with the recorded ids, the log up to `ends`, and all commits, loaded by another broker."""
    state = cluster._state
    state.cluster_id = recorded.cluster_id
    for name, text in recorded.topic_ids.items():
        topic = state.topics.topic(name)
        del state.topics._by_id[topic.id]
        topic.id = uuid.UUID(text)
        state.topics._by_id[topic.id] = topic
        for partition in topic.partitions:
            partition.topic_id = topic.id
    grow(cluster, ends)
    if with_commits:
        for group, records in recorded.commits.items():
            commit(cluster, group, records)


def commit(cluster: EmbeddedCluster, group: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Write a group's records to `__consumer_offsets`, and move the coordinator to the broker that must read them."""
    journal = cluster._state.offsets_partition(group)
    for key, data in records:
        cluster.produce(OFFSETS_TOPIC, journal.topic_partition.partition, data, key)
    cluster.move_coordinator(group, 1 - journal.leader, load_time=0)


def records_of(cluster: EmbeddedCluster, topic: str, partition: int) -> Iterator[Any]:
    """Yield the records of a log, read by kafka-python, with `key`, `value` and `headers`."""
    for data in cluster.log(topic, partition).batches():
        batches = MemoryRecords(data)
        while batches.has_next():
            yield from batches.next_batch()


def admin_of(cluster: EmbeddedCluster) -> GroupAdmin:
    return GroupAdmin(cluster.bootstrap_servers, Config(), lambda event: None)


# -- tables --------------------------------------------------------------------------------------


def group_of(kind: str, state: str) -> str:
    return f"{kind}-{'plain' if state == OLDER else state}"


@attrs.frozen
class Store:
    """A directory with tables, which `lake_properties(directory)` configures in Spark."""

    directory: Path
    label: str = ""
    """A suffix of the tables' names, unique for each test: Delta caches tables by their paths."""

    def path(self, kind: str, state: str) -> Path:
        """Return the directory of a table."""
        parent = self.directory / "iceberg" / "kept" if kind == "iceberg" else self.directory / kind
        return parent / f"{state}{self.label}"

    def place(self, kind: str, state: str) -> str:
        """Return the name of a table on command lines, such as `delta:/directory/delta/plain`."""
        if kind == "iceberg":
            return f"iceberg:{ICEBERG_CATALOG}.kept.{state}{self.label}"
        return f"{kind}:{self.path(kind, state)}"

    def table(self, kind: str, state: str, layout: Layout | None = None) -> Table:
        place = self.place(kind, state).partition(":")[2]
        table_class = {"parquet": ParquetTable, "delta": DeltaTable, "iceberg": IcebergTable}[kind]
        return table_class(place, layout=layout)

    def sink(
        self, kind: str, state: str, spark: Any, cluster: EmbeddedCluster, *, dead_letters: DeadLetters | None = None
    ) -> SparkSink:
        """Return a sink for a table. The lived Parquet table gets its columns from JSON values."""
        layout, shape = None, Shaping()
        if (kind, state) == ("parquet", "lived"):
            layout = Layout(partition_by=("parity",), evolve_schema=True)
            columns = "id BIGINT, text STRING, parity STRING"
            if cluster.log(TOPIC, 0).end_offset > FIRST[0]:
                columns += ", more STRING"
            shape = Shaping.from_options({"value_format": "json", "value_schema": columns, "flatten": True})
            dead_letters = dead_letters or TopicDeadLetters(cluster.bootstrap_servers, DEAD)
        return SparkSink(
            self.table(kind, state, layout),
            name=NAMES[state],
            shape=shape,
            dead_letters=dead_letters,
            on_missing="leave_out" if state == "lived" else "stop",
            max_rows=4,
            max_age=0.3,
            spark=spark,
        )

    def unpack(self, kind: str, state: str, *, later: bool = False) -> None:
        """Unpack a recorded table into its directory.

        Args:
            kind: the kind of table.
            state: its state, one of STATES or OLDER.
            later: only add the files that the old build's member wrote next.
        """
        to = self.path(kind, state)
        with tempfile.TemporaryDirectory(prefix="unpacked-") as directory:
            table, names = Path(directory), _extract(archive("tables", kind, state), Path(directory))
            if later:
                names = _extract(archive("later", kind, state), table)
            if kind == "iceberg":
                relocate(table, PLACE, str(to))
            # Metadata that names other files is copied last, in the order of a real write.
            for name in sorted(names, key=lambda name: (name.endswith((".json", ".text")), name)):
                if (table / name).is_dir():
                    (to / name).mkdir(parents=True, exist_ok=True)
                else:
                    (to / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(table / name, to / name)


def archive(part: str, kind: str, state: str) -> Path:
    """Return the path of an archive.

    Args:
        part: "tables" for whole tables, "later" for the files that the old build wrote next.
        kind: the kind of table.
        state: the state of the table.
    """
    return FIXTURES / part / f"{kind}-{state}.tar.xz"


def _extract(path: Path, to: Path) -> list[str]:
    with tarfile.open(path) as files:
        files.extractall(to, filter="data")
        return files.getnames()


async def land(
    cluster: EmbeddedCluster,
    group: str,
    sink: SparkSink,
    ends: Iterable[int],
    *,
    task_status: trio.TaskStatus[list[Event]] = trio.TASK_STATUS_IGNORED,
) -> list[Event]:
    """Consume the topic in a group until it has committed these log ends. Return the events of the member."""
    wanted = {TopicPartition(TOPIC, partition): end for partition, end in zip(PARTITIONS, ends, strict=True)}
    events: list[Event] = []
    config = Config(offset_initial="oldest", autocommit_interval=0.1, session_timeout=60.0, fetch_max_wait=0.1)
    with trio.fail_after(_DEADLINE):
        async with (
            sink,
            ConsumerGroup(cluster.bootstrap_servers, group, config, observers=[events.append]) as member,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(member.consume, [TOPIC], sink)
            task_status.started(events)
            while any(_committed(cluster, group, tp) < end for tp, end in wanted.items()):
                await trio.sleep(0.02)
            member.close_nowait()
    return events


def _committed(cluster: EmbeddedCluster, group: str, partition: TopicPartition) -> int:
    found = cluster.committed(group).get(partition)
    return -1 if found is None else found.offset


def offsets(frame: Any) -> dict[int, list[int]]:
    """Return the sorted offsets of each partition in a DataFrame of landed rows, with duplicates."""
    found: dict[int, list[int]] = {partition: [] for partition in PARTITIONS}
    for partition, offset in frame.select("partition", "offset").collect():
        found[partition].append(offset)
    return {partition: sorted(numbers) for partition, numbers in found.items()}
