"""Helpers for Delta tables without Spark, which create, append to and read a table, and a process that races for links.

`python -m tests.handlers.spark.delta.direct_commit_process ROOT LINKS` tries to append the links 1 to LINKS of one
chain, while other processes do the same. It prints each attempt and its outcome on one line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from bench.land.landed import files
from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import Link
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.direct_commits import CommitOutcome, DirectCommitter
from sarameya_handlers.spark.delta.history.chains import LAST, ChainHistory, search
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.history.commits import CommitMark
from sarameya_handlers.spark.delta.history.log import DeltaLog
from sarameya_handlers.spark.delta.row_files import record_columns, staged_rows
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing
from tests.handlers.spark.delta.kit import KEY, link

NO_SPARK: Any = None
NO_CHECKPOINTS = 1_000_000
"""Number of commits between two checkpoints by Spark: more than any test makes."""


def plain(checkpoint_interval: int = NO_CHECKPOINTS) -> CommitRules:
    """Return the rules of a plain table of records."""
    return CommitRules(columns=record_columns(), checkpoint_interval=checkpoint_interval)


def create(root: Path) -> Path:
    """Create the log of an empty table."""
    commit(root, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": {"id": "any"}})
    return root


def commit(root: Path, version: int, *actions: Mapping[str, Any]) -> None:
    """Write a commit as another writer would."""
    file = root / commit_file(version)
    file.parent.mkdir(parents=True, exist_ok=True)
    info = {"commitInfo": {"timestamp": version, "operation": "WRITE"}}
    file.write_text("\n".join(json.dumps(action, separators=(",", ":")) for action in (info, *actions)))


def staged(root: Path, of: Link, **columns: list[Any]) -> Landing:
    """Stage the records of a link; `columns` replaces the values of some columns."""
    count = of.to_offset - of.from_offset
    values: Mapping[str, list[Any]] = {
        "key": [None] * count,
        "value": [of.attempt.encode()] * count,
        "topic": [of.key.topic] * count,
        "partition": [of.key.partition] * count,
        "offset": list(range(of.from_offset, of.to_offset)),
        "timestamp": [1_700_000_000_000_001 + number for number in range(count)],
        "timestampType": [0] * count,
        "headers": [None] * count,
        **columns,
    }
    path = root / "_sarameya" / f"{of.attempt}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(values), schema=kafka_schema()), path)
    return Landing(link=of, staged=StagedFile(path), records=count)


def log_of(root: Path) -> DeltaLog:
    """Return the log of a table, read from its files."""
    log = DeltaLog("unused")
    log.read_from(LocalStore(root))
    return log


def chain(root: Path) -> ChainHistory:
    """Return all links of KEY according to the log."""
    return search(log_of(root).commits(NO_SPARK), {KEY: 1})[KEY]


def read_mark(log: DeltaLog, of: Link) -> CommitMark | CommitOutcome:
    """Return the mark of a link, or LOST if another attempt has its number, as a table does."""
    known = search(log.commits(NO_SPARK), {of.key: LAST})[of.key]
    last = known.links[-1].number if known.links else 0
    assert of.number <= last + 1
    return CommitOutcome.LOST if of.number <= last else CommitMark(of, known.seen, known.term)


def adopt(root: Path, landing: Landing, **options: Any) -> CommitOutcome:
    """Append a landing to a plain table. `options` replaces callables of `DirectCommitter.append`."""
    callables: dict[str, Any] = {
        "read_mark": partial(read_mark, log_of(root), landing.link),
        "load_rules": plain,
        "on_ready": lambda: None,
        **options,
    }
    return DirectCommitter(LocalStore(root)).append(landing, staged_rows(landing), **callables)


def offsets(root: Path) -> list[int]:
    """Return the offsets of all rows according to the log."""
    tables = (pq.read_table(file, columns=["offset"]) for file in files("delta", root))
    return sorted(offset for table in tables for offset in table["offset"].to_pylist())


def main(root: Path, links: int) -> None:
    """Try to append links until the chain has `links` of them."""
    log, committer = log_of(root), DirectCommitter(LocalStore(root))
    while True:
        known = search(log.commits(NO_SPARK), {KEY: LAST})[KEY]
        last = known.links[-1].number if known.links else 0
        if last >= links:
            return
        mine = link(last + 1, attempt=uuid4().hex)
        landing = staged(root, mine)
        read = partial(read_mark, log, mine)
        rows = staged_rows(landing)
        outcome = committer.append(landing, rows, read_mark=read, load_rules=plain, on_ready=lambda: None)
        assert landing.staged is not None
        landing.staged.path.unlink()
        print(mine.number, mine.attempt, outcome.name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
