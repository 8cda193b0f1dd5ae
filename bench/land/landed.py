"""What a table has in the end, and whether it is what the topic has: each record once, with its own values."""

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

_AT = ("partition", "offset")


@attrs.frozen(eq=False)
class Expected:
    """What a full topic makes of a table."""

    ends: Sequence[int]
    """Each partition's log end offset: message n of all is in partition n % len."""
    rows: pa.Table
    """The columns that are made of messages' values: those of message n are row n % len."""


def files(kind: str, table: Path) -> list[Path]:
    """The files that readers of the table see; by another reader than Spark."""
    if kind == DELTA:
        return _delta_files(table)
    table.mkdir(exist_ok=True)  # who has landed nothing has not made it
    return [Path(file) for file in pyarrow.dataset.dataset(table, format="parquet").files]


def batches(paths: Iterable[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All rows of these files: where each comes from, and these columns."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(columns=[*_AT, *columns])


def fault(rows: Iterable[pa.RecordBatch], expected: Expected) -> str | None:
    """Why a landing does not count; None where the table has each message once, and nothing else."""
    seen = [np.zeros(end, np.int64) for end in expected.ends]
    for batch in rows:
        if wrong := _wrong_place(batch, expected.ends) or _wrong_values(batch, expected):
            return wrong
        partitions, offsets = (batch.column(name).to_numpy() for name in _AT)
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
    partitions, offsets = (batch.column(name).to_numpy() for name in _AT)
    limits = np.append(ends, 0)[np.clip(partitions, -1, len(ends))]
    strange = np.flatnonzero((partitions < 0) | (offsets < 0) | (offsets >= limits))
    if len(strange):
        return f"there is a row of partition {partitions[strange[0]]}, offset {offsets[strange[0]]}"
    return None


def _wrong_values(batch: pa.RecordBatch, expected: Expected) -> str | None:
    partitions, offsets = (batch.column(name).to_numpy() for name in _AT)
    wanted = expected.rows.take((offsets * len(expected.ends) + partitions) % len(expected.rows))
    found = pa.Table.from_batches([batch]).select(wanted.column_names).cast(wanted.schema)
    if found.equals(wanted):
        return None
    row = next(row for row in range(len(found)) if not found.slice(row, 1).equals(wanted.slice(row, 1)))
    return f"partition {partitions[row]}, offset {offsets[row]} has other values: {found.slice(row, 1).to_pylist()}"


def _delta_files(table: Path) -> list[Path]:
    """By its log, which is whole: no landing here commits so often that any of it would be removed."""
    live: dict[str, None] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                live[action["add"]["path"]] = None
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    return [table / unquote(path) for path in live]
