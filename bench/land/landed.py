"""What a table of Parquet files has in the end, and whether it is what the topic has. `fault` is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pyarrow.compute as compute
import pyarrow.dataset


@attrs.frozen
class Rows:
    """One partition's."""

    rows: int
    offsets: int
    """Different ones."""
    first: int
    last: int
    value_bytes: int
    """Of all values."""

    @classmethod
    def whole(cls, end: int, size: int) -> Rows:
        """Each offset up to `end` once, with a value of `size` bytes."""
        return cls(end, end, 0, end - 1, end * size)


@attrs.frozen
class Landed:
    partitions: Mapping[int, Rows]
    files: int


def read(table: Path) -> Landed:
    """Read all rows of a directory of Parquet files, but for what is hidden there, by another reader than Spark."""
    table.mkdir(exist_ok=True)  # who has landed nothing has not made it
    dataset = pyarrow.dataset.dataset(table, format="parquet")
    if not dataset.files:
        return Landed({}, 0)
    columns = {
        "partition": pyarrow.dataset.field("partition"),
        "offset": pyarrow.dataset.field("offset"),
        "size": compute.binary_length(pyarrow.dataset.field("value")),
    }
    found = dataset.to_table(columns).group_by("partition")
    told = found.aggregate([("offset", kind) for kind in ("count", "count_distinct", "min", "max")] + [("size", "sum")])
    return Landed({row.pop("partition"): Rows(*row.values()) for row in told.to_pylist()}, len(dataset.files))


def fault(landed: Landed, ends: Sequence[int], size: int) -> str | None:
    """Why a landing does not count; None where the table has each message once, and nothing else."""
    wanted = {partition: Rows.whole(end, size) for partition, end in enumerate(ends)}
    for partition in sorted(wanted.keys() | landed.partitions.keys()):
        found, whole = landed.partitions.get(partition), wanted.get(partition)
        if found != whole:
            return f"partition {partition} has {found}, not {whole}"
    return None
