"""Delta tables without Spark: a `DirectCommitter` commits to them, and fixed values replace Spark's answers about them.

No driver lease guards such a table, since no Spark commits to it: several processes may write to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from sarameya_handlers.landing.files import make_directory, put_if_absent
from sarameya_handlers.spark.delta import leftovers
from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.direct_commits import DirectCommitter
from sarameya_handlers.spark.delta.history.log import commit_file
from sarameya_handlers.spark.delta.row_files import record_columns, rows_directory
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.tables.columns import struct
from sarameya_handlers.spark.tables.row_count import RowCount
from sarameya_handlers.spark.tables.table import Landing, Leftover

_FIRST_COMMIT = (
    {"commitInfo": {"timestamp": 0, "operation": "CREATE TABLE"}},
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "conformance"}},
)
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
        return Frame(landing.staged)

    def frames(self, spark: Any, landings: Sequence[Landing]) -> Sequence[Any]:
        frames = [self.frame(spark, landing) for landing in landings]
        for landing, frame in zip(landings, frames, strict=True):
            landing.reads.append(RowCount(frame, Observed({"rows": landing.records})))
        return frames


def write_each(spark: Any, into: Path, landings: Sequence[Landing], frames: Sequence[Frame], **_: Any) -> None:
    """Write the staged rows of each landing, as Spark's job would do."""
    for landing, frame in zip(landings, frames, strict=True):
        make_directory(into / landing.link.attempt)
        rows = pq.read_table(frame.staged)
        pq.write_table(rows, into / landing.link.attempt / "part-00000-0.c000.snappy.parquet")


class AdoptedDelta(DeltaTable):
    """A Delta table that adopts staged files and needs no Spark."""

    needs_spark = False

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._root = root
        self._detail = TableDetail(location=f"file://{root}")
        self._staging = root / "_sarameya" / "staging"
        self._committer = DirectCommitter(root)
        self._log.read_below(root)

    def open(self, spark: Any) -> None:
        make_directory(self.staging)
        make_directory(rows_directory(self._root))
        commit = "\n".join(json.dumps(action, separators=(",", ":")) for action in _FIRST_COMMIT)
        put_if_absent(commit_file(self._root, 0), commit.encode())

    def open_unstaged(self, spark: Any) -> None:
        self.open(spark)

    def driver_lock(self, spark: Any) -> None:
        return None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file in self.files():
            existing = [column for column in columns if column in pq.read_schema(file).names]
            yield from pq.read_table(file, columns=existing).to_batches()

    def files(self) -> list[Path]:
        """Return the data files that the Delta log lists."""
        # A late import, since the bench's imports take a second: the many members and racers never call this.
        from bench.land.landed import files

        return files("delta", self._root)

    def leftovers(self, spark: Any) -> Sequence[Leftover]:
        return leftovers.leftovers(self._root, lambda: map(str, self.files()), self.staging)

    def remove(self, spark: Any, leftover: Leftover) -> None:
        leftovers.remove(leftover, self._root, self.staging)

    def _load_detail(self, spark: Any) -> None:
        pass

    def _load_rules(self, spark: Any) -> CommitRules:
        return CommitRules(columns=record_columns(), checkpoint_interval=_NEVER)

    def _transactions(self, spark: Any) -> Mapping[str, int]:  # type: ignore[override]
        return {}
