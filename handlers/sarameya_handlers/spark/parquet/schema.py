"""The schema of a landed directory: what lands there is held against it, and made to fit before it is written.

    newest ─► compare ─► (columns that are new, where they may be) ─► write ─► put the next one ─► link

A schema is put once there are rows that have it, so that what fails to be written leaves none behind, and before they
are linked, so that the newest has each column of what has landed. A member that finds its number taken meanwhile goes
on where its rows fit what it finds, and lands them again where they do not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from sarameya_handlers.landing.data_files import DataFiles
from sarameya_handlers.landing.files import is_there
from sarameya_handlers.landing.schemas import Schema
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.columns import Columns, holds, merged, nullable, of_arrow, struct
from sarameya_handlers.spark.tables.table import Landing, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARKS_OWN = b"org.apache.spark.sql.parquet.row.metadata"
"""Where a file that Spark has written says what its columns are."""


class SchemaMovedError(LandingError):
    """Somebody else has given the directory other columns while these rows were written."""

    passes = True


@attrs.frozen(slots=True)
class Fit:
    """The columns that rows are written with: those of the directory's schema `number`, or, with `is_new`, those that
    the next one is to have. Number 0 is none."""

    number: int
    columns: Columns
    is_new: bool
    is_staged: bool = False
    """Whether staged files were found to fit as they are, which all of a process have the same columns."""


class DirectorySchema:
    """The schema of one directory; `name` is the table's."""

    def __init__(self, files: DataFiles, name: str, layout: Layout) -> None:
        self._files = files
        self._name = name
        self._layout = layout
        self._staged: Fit | None = None
        """What staged files are known to fit, for good: a directory's columns stay."""
        self._is_empty = False
        """Whether it was found that nothing has landed here without a schema: it need not be looked for again."""

    def fit(self, frames: Sequence[DataFrame]) -> tuple[list[DataFrame], Fit]:
        """These rows as the directory wants them, all with the same columns. No job of Spark's.

        Raises SchemaMismatchError for what differs.
        """
        from sarameya_handlers.spark.shaping.conforming import conform
        from sarameya_handlers.spark.shaping.schemas import by_name, compare

        number, table = self._newest()
        columns = table
        for frame in frames:
            rows = nullable(frame.schema.jsonValue())
            if columns is None:
                by_name(frame.schema)
                columns = rows
                continue
            if number == 0:
                columns = merged(columns, self._partition_columns(rows))
            differences = compare(frame.schema, struct(columns))
            differences.require(
                f"{self._name}, whose schema is one for all that lands there, of whatever topic",
                evolve_schema=self._layout.evolve_schema,
            )
            columns = merged(columns, rows)
        assert columns is not None, "there are frames"
        wanted = struct(columns)
        return [conform(frame, wanted) for frame in frames], Fit(number, columns, number == 0 or columns != table)

    def adopted(self, landing: Landing) -> Fit | None:
        """What the staged file of a landing fits as it is; None where Spark has to make its rows fit, or cannot."""
        import pyarrow.parquet as pq

        if self._staged is not None:
            return self._staged
        rows = of_arrow(pq.read_schema(landing.staged))
        number, table = self._newest()
        if table is None:
            return Fit(0, rows, is_new=True, is_staged=True)
        return Fit(number, table, is_new=number == 0, is_staged=True) if holds(table, rows) else None

    def keep(self, fit: Fit) -> None:
        """Have the directory's schema be what rows were written with. Raises SchemaMovedError, and OSError."""
        if fit.is_new and not self._files.schemas.put(Schema(fit.number + 1, _text(fit.columns))):
            _, table = self._newest()
            if not holds(table, fit.columns):
                raise SchemaMovedError(
                    f"{self._name}: its schema was changed by another member while rows were written"
                )
        if fit.is_staged:
            self._staged = attrs.evolve(fit, is_new=False)

    def _newest(self) -> tuple[int, Columns | None]:
        """Of a directory that has landed when there were no schemas, what some of its newest rows have, as number 0."""
        if (newest := self._files.schemas.newest()) is not None:
            return newest.number, columns_of(self._files, newest)
        if self._is_empty:
            return 0, None
        place = _data_file(self._files)
        self._is_empty = place is None
        return 0, None if place is None else _columns_in(place)

    def _partition_columns(self, rows: Columns) -> dict[str, Any]:
        """Files do not have those, directories are named by their values: their types are the rows'."""
        wanted = {column.lower() for column in self._layout.partition_by}
        return {"type": "struct", "fields": [field for field in rows["fields"] if field["name"].lower() in wanted]}


def newest_columns(files: DataFiles) -> Columns | None:
    """The columns of a directory; None where it has no schema. Raises LandingError for one that cannot be read."""
    newest = files.schemas.newest()
    return None if newest is None else columns_of(files, newest)


def columns_of(files: DataFiles, schema: Schema) -> Columns:
    try:
        told = json.loads(schema.text)
        if told["type"] == "struct" and isinstance(told["fields"], list):
            return nullable(told)  # type: ignore[no-any-return]
    except (ValueError, TypeError, LookupError) as error:
        raise LandingError(f"{files.schemas.path(schema.number)} is no schema of Spark's: {error!r}") from error
    raise LandingError(f"{files.schemas.path(schema.number)} is no schema of Spark's: it is no struct")


def _text(columns: Columns) -> str:
    """As `StructType.json` has it."""
    return json.dumps(columns, separators=(",", ":"), sort_keys=True)


def _data_file(files: DataFiles) -> Path | None:
    """A file of some chain's head, else of what landed before, or of a compaction."""
    heads = [head for key in files.manifests.chains() if (head := files.manifests.head(key))]
    for head in heads:
        for file in files.publish_link(head).files:
            if is_there(place := files.root / file.name):
                return place
    last = None
    for _, last in files.live():  # noqa: B007
        pass
    return last


def _columns_in(file: Path) -> Columns:
    import pyarrow.parquet as pq

    footer = pq.read_metadata(file)
    told = (footer.metadata or {}).get(_SPARKS_OWN)
    return nullable(json.loads(told)) if told else of_arrow(footer.schema.to_arrow_schema())
