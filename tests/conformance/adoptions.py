"""Delta tables without Spark: a `DirectCommitter` commits to them, and fixed values replace Spark's answers about them.

No driver lease guards such a table, since no Spark commits to it: several processes may write to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta import leftovers
from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.creation import creation
from sarameya_handlers.spark.delta.direct_commits import DirectCommitter
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.place import HIDDEN
from sarameya_handlers.spark.delta.row_files import record_columns, rows_directory
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.tables.columns import struct
from sarameya_handlers.spark.tables.row_count import RowCount
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Landing, Leftover

_NEVER = 1 << 62
"""Number of commits between two checkpoints by Spark: more than any test makes."""


@attrs.frozen
class Frame:
    """A stand-in for a DataFrame: the file of staged rows, which the table sees as rows to write."""

    staged: Path

    @property
    def schema(self) -> Any:
        return struct(record_columns())


@attrs.frozen
class Observed:
    """A stand-in for Spark's Observation: the count of rows that a job would have observed."""

    get: dict[str, int]


class WrittenShape:
    """A shape that makes the table write rows instead of adopting the staged file. The rows are the staged rows."""

    is_plain = False

    def frame(self, spark: Any, landing: Landing) -> Any:
        assert landing.staged is not None
        return Frame(landing.staged.path)

    def frames(self, spark: Any, landings: Sequence[Landing]) -> Sequence[Any]:
        frames = [self.frame(spark, landing) for landing in landings]
        for landing, frame in zip(landings, frames, strict=True):
            landing.reads.append(RowCount(frame, Observed({"rows": landing.records})))
        return frames


def write_each(spark: Any, store: Store, into: Sequence[str], frames: Sequence[Frame], **_: Any) -> None:
    """Write the staged rows of each landing, as Spark's job would do."""
    for directory, frame in zip(into, frames, strict=True):
        with store.writing(f"{directory}/part-00000-{uuid4()}-c000.snappy.parquet") as path:
            pq.write_table(pq.read_table(frame.staged), path)


class AdoptedDelta(DeltaTable):
    """A Delta table that adopts staged files and needs no Spark.

    Args:
        table: The table's directory, or its URL in an object store.
        staging: A directory for staged files, for an object store.
    """

    needs_spark = False

    def __init__(self, table: str | Path, staging: Path | None = None) -> None:
        options = StoreOptions(trusted=True) if isinstance(table, str) else None
        super().__init__(table, staging=staging, store=options)
        self.store = store_at(table, options)
        self._detail = TableDetail(location=str(table) if options else f"file://{table}")
        self._staging = Staging(staging or Path(table, HIDDEN, "staging"))
        if options is None:
            self._committer = DirectCommitter(self.store)
        else:
            self._commit_on_s3(self.store)
        self._log.read_from(self.store)

    def open(self, spark: Any) -> None:
        self.staging.make()
        self.store.prepare([rows_directory(self.store)])
        self.store.put_if_absent(commit_file(0), creation(self.name, record_columns()))

    def open_unstaged(self, spark: Any) -> None:
        self.open(spark)

    def driver_lock(self, spark: Any) -> None:
        return None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for name in self.files():
            with pq.ParquetFile(self.store.open(name)) as file:
                existing = [column for column in columns if column in file.schema_arrow.names]
                yield from file.iter_batches(columns=existing)

    def files(self) -> list[str]:
        """Return the data files that the Delta log lists."""
        contents = (self.store.get(commit_file(version)) for version in count())
        lines = [line for content in takewhile(bool, contents) for line in (content or b"").splitlines()]
        return [action["add"]["path"] for line in lines if "add" in (action := json.loads(line))]

    def leftovers(self, spark: Any) -> Sequence[Leftover]:
        return leftovers.leftovers(self.store, self.files, self.staging)

    def remove(self, spark: Any, leftover: Leftover) -> None:
        leftovers.remove(leftover, self.store, self.staging)

    def _load_detail(self, spark: Any) -> None:
        pass

    def _load_rules(self, spark: Any) -> CommitRules:
        return CommitRules(columns=record_columns(), checkpoint_interval=_NEVER)

    def _transactions(self, spark: Any) -> Mapping[str, int]:  # type: ignore[override]
        return {}
