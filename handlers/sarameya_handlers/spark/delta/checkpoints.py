"""The last checkpoint of a Delta log, read from its files: which version it is of, and what it says of transactions.

A log may have a checkpoint of another kind (V2), or none that is found here: then others have to be asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sarameya_handlers.spark.delta.commits import APP_PREFIX

_TXN = b'{"txn":'
_FEW_COMMITS = 10_000
"""Commits behind the last checkpoint that are read one by one."""


class _Last(msgspec.Struct):
    """Content of `_last_checkpoint`."""

    version: int
    parts: int | None = None


def checkpointed(log: Path) -> int | None:
    """Return the version of the last checkpoint of the log in this directory; None where that is not told."""
    last = _last(log)
    return None if last is None else last.version


def transactions_in(log: Path, newest: int) -> dict[str, int] | None:
    """Return our `txn` versions, by appId, by the last checkpoint and the commits behind it up to `newest`.

    None where they cannot be told so.
    """
    import pyarrow as pa

    last = _last(log)
    if last is None or newest - last.version > _FEW_COMMITS:
        return None
    try:
        found = dict(txn for file in _files(log, last) for txn in _in_checkpoint(file))
        for version in range(last.version + 1, newest + 1):
            found.update(_in_commit(log / f"{version:020d}.json"))
    except (FileNotFoundError, pa.ArrowException):  # of another kind, cleaned up meanwhile, or torn
        return None
    return found


def _last(log: Path) -> _Last | None:
    try:
        return msgspec.json.decode((log / "_last_checkpoint").read_bytes(), type=_Last)
    except (OSError, msgspec.MsgspecError):
        return None


def _files(log: Path, last: _Last) -> list[Path]:
    name = f"{last.version:020d}.checkpoint"
    if last.parts is None:
        return [log / f"{name}.parquet"]
    return [log / f"{name}.{part:010d}.{last.parts:010d}.parquet" for part in range(1, last.parts + 1)]


def _in_checkpoint(file: Path) -> list[tuple[str, int]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with file.open("rb") as opened:
        # No other columns: they have a row for each file of the table.
        found = pq.ParquetFile(opened).read(columns=["txn.appId", "txn.version"])
    if not found.num_columns:
        return []
    txns = found["txn"]
    apps = pc.struct_field(txns, "appId")
    ours = txns.filter(pc.starts_with(apps, APP_PREFIX).fill_null(False))
    return [(txn["appId"], txn["version"]) for txn in ours.to_pylist()]


def _in_commit(file: Path) -> dict[str, int]:
    txns: list[dict[str, Any]] = [
        msgspec.json.decode(line)["txn"] for line in file.read_bytes().splitlines() if line.startswith(_TXN)
    ]
    return {txn["appId"]: txn["version"] for txn in txns if txn["appId"].startswith(APP_PREFIX)}
