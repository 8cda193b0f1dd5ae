"""Files of a Delta log, and its last checkpoint: its version, and the transactions that it records.

A checkpoint may be of another kind (V2), or missing. Callers then read the log with Spark.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.history.commits import APP_PREFIX

LOG = "_delta_log"
"""The log's directory, below the table's root."""

_TXN = b'{"txn":'
_FEW_COMMITS = 10_000
"""Maximum number of commits after the last checkpoint that are read one by one."""


class _LastCheckpoint(msgspec.Struct):
    """Content of `_last_checkpoint`."""

    version: int
    parts: int | None = None


def commit_file(version: int) -> str:
    """Return the name of a version's commit file, below the table's root."""
    return f"{LOG}/{version:020d}.json"


def last_checkpoint_version(store: Store) -> int | None:
    """Return the version of the log's last checkpoint; None if there is none, or of another kind.

    Raises:
        OSError: It cannot be read.
    """
    last = _last_checkpoint(store)
    return None if last is None else last.version


def transactions_in(store: Store, newest: int) -> dict[str, int] | None:
    """Return our `txn` versions by appId, read from the last checkpoint and the commits after it; None if that fails.

    Args:
        store: The table's files.
        newest: The last commit to read.
    """
    import pyarrow as pa

    try:
        last = _last_checkpoint(store)
        if last is None or newest - last.version > _FEW_COMMITS:
            return None
        found = dict(txn for file in _checkpoint_files(last) for txn in _txns_of_checkpoint(store, file))
        for version in range(last.version + 1, newest + 1):
            if (content := store.get(commit_file(version))) is None:
                return None
            found.update(_txns_of_commit(content))
    except (OSError, pa.ArrowException, msgspec.MsgspecError):  # another kind of checkpoint, or a damaged file
        return None
    return found


def _last_checkpoint(store: Store) -> _LastCheckpoint | None:
    content = store.get(f"{LOG}/_last_checkpoint")
    try:
        return None if content is None else msgspec.json.decode(content, type=_LastCheckpoint)
    except msgspec.MsgspecError:
        return None


def _checkpoint_files(last: _LastCheckpoint) -> list[str]:
    name = f"{LOG}/{last.version:020d}.checkpoint"
    if last.parts is None:
        return [f"{name}.parquet"]
    return [f"{name}.{part:010d}.{last.parts:010d}.parquet" for part in range(1, last.parts + 1)]


def _txns_of_checkpoint(store: Store, file: str) -> list[tuple[str, int]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(store.open(file)) as opened:
        # Only these columns: the others have one row for each file of the table.
        found = opened.read(columns=["txn.appId", "txn.version"])
    if not found.num_columns:
        return []
    txns = found["txn"]
    apps = pc.struct_field(txns, "appId")
    ours = txns.filter(pc.starts_with(apps, APP_PREFIX).fill_null(False))
    return [(txn["appId"], txn["version"]) for txn in ours.to_pylist()]


def _txns_of_commit(content: bytes) -> dict[str, int]:
    txns: list[dict[str, Any]] = [
        msgspec.json.decode(line)["txn"] for line in content.splitlines() if line.startswith(_TXN)
    ]
    return {txn["appId"]: txn["version"] for txn in txns if txn["appId"].startswith(APP_PREFIX)}
