"""Builds a Delta table with a long log: writes its commits and a checkpoint as Sarameya and Spark write them.

Spark creates the table. The data files that commits name do not exist: neither a start nor a landing batch reads any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from bench.growth.chains import ROWS, history
from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.history.commits import CommitMark, app_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTED = 1_790_000_000_000
"""Milliseconds since 1970 before the first commit."""
_INTERVAL = 2_000
"""Milliseconds between two commits: a million of them are 23 days."""
_AFTER_CHECKPOINT = 50
"""Number of commits after the checkpoint."""
_KEPT = 1000
"""Number of commits up to the checkpoint that a cleaned log still has."""


class Log(StrEnum):
    """Kind of a log."""

    CHECKPOINTED = "checkpoint"
    """With a checkpoint a few commits ago, and all commits."""
    CLEANED = "cleaned"
    """With a checkpoint, and about the last thousand commits, as after a short retention."""
    BARE = "no checkpoint"
    """With all commits, and no checkpoint."""

    @property
    def longest(self) -> int:
        """The greatest length that is measured. Without a checkpoint, Spark reads every commit at the start."""
        return 100_000 if self is Log.BARE else 1_000_000


def build(spark: SparkSession, root: Path, length: int, log: Log) -> None:
    """Create the table, and write a log of `length` commits."""
    columns = ", ".join(f"`{name}` {kind}" for name, kind in _columns(spark, root.parent))
    spark.sql(f"CREATE TABLE delta.`{root}` ({columns}) USING delta")
    created = [json.loads(line) for line in (root / commit_file(0)).read_text().splitlines()]
    checkpoint = max(length - _AFTER_CHECKPOINT, 0)
    removed = max(checkpoint - _KEPT, 0) if log is Log.CLEANED else 0
    txns: dict[str, int] = {}
    adds: list[tuple[str, int]] = []
    for version, link in enumerate(history(length, (removed + checkpoint) // 2 if removed else 0), start=1):
        name = f"part-00000-{UUID(link.attempt)}-c000.snappy.parquet"
        if version > removed:
            (root / commit_file(version)).write_text(_commit(link, version, name))
        if version <= checkpoint and log is not Log.BARE:
            txns[app_id(link.key)] = link.number
            adds.append((name, version))
    if removed:
        (root / commit_file(0)).unlink()
    if log is not Log.BARE:
        _write_checkpoint(root, checkpoint, created, txns, adds)
    for crc in (root / "_delta_log").glob("*.crc"):
        crc.unlink()


def _columns(spark: SparkSession, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield names and types of the columns of records, as Spark reads them from a staged file."""
    file = directory / "columns.parquet"
    pq.write_table(kafka_schema().empty_table(), file)
    yield from ((field.name, field.dataType.simpleString()) for field in spark.read.parquet(str(file)).schema)


def _commit(link: Link, version: int, name: str) -> str:
    now = _STARTED + version * _INTERVAL
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": version - 1,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": str(ROWS), "numOutputBytes": "20000"},
        "userMetadata": CommitMark(link, version - 1, 0).to_json(),
        "engineInfo": "bench",
    }
    txn = {"appId": app_id(link.key), "version": link.number, "lastUpdated": now}
    actions = {"commitInfo": info, "txn": txn, "add": _add(name, version)}
    return "".join(json.dumps({key: value}, separators=(",", ":")) + "\n" for key, value in actions.items())


def _add(name: str, version: int) -> dict[str, Any]:
    return {
        "path": name,
        "partitionValues": {},
        "size": 20_000,
        "modificationTime": _STARTED + version * _INTERVAL,
        "dataChange": True,
        "stats": f'{{"numRecords":{ROWS}}}',
    }


_TEXTS = pa.map_(pa.string(), pa.string())
_FORMAT = pa.struct([("provider", pa.string()), ("options", _TEXTS)])
_CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", _FORMAT),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)
_ROWS_PER_WRITE = 100_000


def _write_checkpoint(
    root: Path,
    version: int,
    created: list[dict[str, Any]],
    txns: Mapping[str, int],
    adds: list[tuple[str, int]],
) -> None:
    kept = [action for action in created if "metaData" in action or "protocol" in action]
    for action in kept:
        if "metaData" in action:
            action["metaData"]["configuration"] = list(action["metaData"]["configuration"].items())
            action["metaData"]["format"]["options"] = []
    head = kept + [{"txn": {"appId": app, "version": n, "lastUpdated": _STARTED}} for app, n in txns.items()]
    file = root / "_delta_log" / f"{version:020d}.checkpoint.parquet"
    with pq.ParquetWriter(file, _CHECKPOINT) as writer:
        writer.write_table(pa.Table.from_pylist(head, _CHECKPOINT))
        for first in range(0, len(adds), _ROWS_PER_WRITE):
            rows = [{"add": {**_add(*add), "partitionValues": []}} for add in adds[first : first + _ROWS_PER_WRITE]]
            writer.write_table(pa.Table.from_pylist(rows, _CHECKPOINT))
    last_checkpoint = {"version": version, "size": len(head) + len(adds)}
    (root / "_delta_log" / "_last_checkpoint").write_text(json.dumps(last_checkpoint))
