"""Reads a landed table, and checks that it has each record of the topic once, with its own values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from bench.land.contenders import DELTA

_PLACE = ("partition", "offset")


@attrs.frozen(eq=False)
class Expected:
    """Rows that a table must have."""

    ends: Sequence[int]
    """Log end offset of each partition. Message n of the topic is in partition n % len(ends)."""
    rows: pa.Table
    """Columns made of the messages' values. Those of message n are in row n % len(rows)."""


def files(kind: str, table: Path) -> list[Path]:
    """Return the files that readers of the table see, found without Spark."""
    if kind == DELTA:
        return _delta_files(table)
    table.mkdir(exist_ok=True)  # a contender that has landed nothing has not created it
    return [Path(file) for file in pyarrow.dataset.dataset(table, format="parquet").files]


def batches(paths: Iterable[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of these files: partition, offset, and these columns."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(columns=[*_PLACE, *columns])


def fault(rows: Iterable[pa.RecordBatch], expected: Expected) -> str | None:
    """Return what is wrong with a table; None if it has each message once, and nothing else."""
    seen = [np.zeros(end, np.int64) for end in expected.ends]
    for batch in rows:
        if wrong := _wrong_place(batch, expected.ends) or _wrong_values(batch, expected):
            return wrong
        partitions, offsets = (batch.column(name).to_numpy() for name in _PLACE)
        for partition in np.unique(partitions):
            seen[partition] += np.bincount(offsets[partitions == partition], minlength=len(seen[partition]))
    for partition, times in enumerate(seen):
        missing, repeated = np.flatnonzero(times == 0), np.flatnonzero(times > 1)
        if len(missing) or len(repeated):
            first = (missing if len(missing) else repeated)[0]
            return (
                f"partition {partition} lacks {len(missing)} of {len(times)} messages, and has {len(repeated)} more "
                f"than once, offset {first} first"
            )
    return None


def _wrong_place(batch: pa.RecordBatch, ends: Sequence[int]) -> str | None:
    partitions, offsets = (batch.column(name).to_numpy() for name in _PLACE)
    limits = np.append(ends, 0)[np.clip(partitions, -1, len(ends))]
    wrong = np.flatnonzero((partitions < 0) | (offsets < 0) | (offsets >= limits))
    if len(wrong):
        return f"there is a row of partition {partitions[wrong[0]]}, offset {offsets[wrong[0]]}"
    return None


def _wrong_values(batch: pa.RecordBatch, expected: Expected) -> str | None:
    partitions, offsets = (batch.column(name).to_numpy() for name in _PLACE)
    wanted = expected.rows.take((offsets * len(expected.ends) + partitions) % len(expected.rows))
    found = pa.Table.from_batches([batch]).select(wanted.column_names).cast(wanted.schema)
    if found.equals(wanted):
        return None
    row = next(row for row in range(len(found)) if not found.slice(row, 1).equals(wanted.slice(row, 1)))
    return f"partition {partitions[row]}, offset {offsets[row]} has other values: {found.slice(row, 1).to_pylist()}"


def _delta_files(table: Path) -> list[Path]:
    """Return the files according to the log. It is whole: no run commits so often that a part of it is removed."""
    live: dict[str, None] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                live[action["add"]["path"]] = None
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    return [table / unquote(path) for path in live]
