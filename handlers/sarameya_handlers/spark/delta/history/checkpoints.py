"""The last checkpoint of a Delta log: its version, and the transactions that it records.

A checkpoint may be of another kind (V2), or missing. Callers then read the log with Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sarameya_handlers.spark.delta.history.commits import APP_PREFIX

_TXN = b'{"txn":'
_FEW_COMMITS = 10_000
"""Maximum number of commits after the last checkpoint that are read one by one."""


class _LastCheckpoint(msgspec.Struct):
    """Content of `_last_checkpoint`."""

    version: int
    parts: int | None = None


def last_checkpoint_version(log: Path) -> int | None:
    """Return the version of the log's last checkpoint; None if it is unknown."""
    last = _last_checkpoint(log)
    return None if last is None else last.version


def transactions_in(log: Path, newest: int) -> dict[str, int] | None:
    """Return our `txn` versions by appId, read from the last checkpoint and the commits after it; None if that fails.

    Args:
        log: The table's `_delta_log`.
        newest: The last commit to read.
    """
    import pyarrow as pa

    last = _last_checkpoint(log)
    if last is None or newest - last.version > _FEW_COMMITS:
        return None
    try:
        found = dict(txn for file in _checkpoint_files(log, last) for txn in _txns_of_checkpoint(file))
        for version in range(last.version + 1, newest + 1):
            found.update(_txns_of_commit(log / f"{version:020d}.json"))
    except (OSError, pa.ArrowException, msgspec.MsgspecError):  # another kind of checkpoint, or a damaged file
        return None
    return found


def _last_checkpoint(log: Path) -> _LastCheckpoint | None:
    try:
        return msgspec.json.decode((log / "_last_checkpoint").read_bytes(), type=_LastCheckpoint)
    except (OSError, msgspec.MsgspecError):
        return None


def _checkpoint_files(log: Path, last: _LastCheckpoint) -> list[Path]:
    name = f"{last.version:020d}.checkpoint"
    if last.parts is None:
        return [log / f"{name}.parquet"]
    return [log / f"{name}.{part:010d}.{last.parts:010d}.parquet" for part in range(1, last.parts + 1)]


def _txns_of_checkpoint(file: Path) -> list[tuple[str, int]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with file.open("rb") as opened:
        # Only these columns: the others have one row for each file of the table.
        found = pq.ParquetFile(opened).read(columns=["txn.appId", "txn.version"])
    if not found.num_columns:
        return []
    txns = found["txn"]
    apps = pc.struct_field(txns, "appId")
    ours = txns.filter(pc.starts_with(apps, APP_PREFIX).fill_null(False))
    return [(txn["appId"], txn["version"]) for txn in ours.to_pylist()]


def _txns_of_commit(file: Path) -> dict[str, int]:
    txns: list[dict[str, Any]] = [
        msgspec.json.decode(line)["txn"] for line in file.read_bytes().splitlines() if line.startswith(_TXN)
    ]
    return {txn["appId"]: txn["version"] for txn in txns if txn["appId"].startswith(APP_PREFIX)}
