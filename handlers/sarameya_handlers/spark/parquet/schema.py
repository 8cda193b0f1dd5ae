"""Schema of a landed directory. Rows are compared with it and converted to it before they are written.

    newest ─► compare ─► (new columns, if allowed) ─► write ─► put the next schema ─► link

A new schema is put after rows with its columns have been written, so a failed write does not leave one behind. It is
put before the rows are linked, so the newest schema has each column of all landed rows. If another member has put a
schema with the same number meanwhile, this member continues if its rows match that schema, and otherwise writes them
again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from sarameya_handlers.landing.directory.data_files import DataFiles
from sarameya_handlers.landing.directory.parquet_merge import open_file
from sarameya_handlers.landing.directory.schemas import StoredSchema
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.columns import Columns, holds, merged, nullable, of_arrow, struct
from sarameya_handlers.spark.tables.table import Landing, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
"""Key under which a file written by Spark records its columns."""


class SchemaMovedError(LandingError):
    """Another member has changed the directory's columns while rows were written."""

    passes = True


@attrs.frozen(slots=True)
class WriteSchema:
    """Columns with which rows are written.

    Attributes:
        number: Number of the directory's schema; 0 for none.
        columns: The columns.
        is_new: True if the columns are those of the next schema, which does not exist yet.
        is_staged: True if staged files match unchanged. All staged files of a process have the same columns.
    """

    number: int
    columns: Columns
    is_new: bool
    is_staged: bool = False


class DirectorySchema:
    """The schema of one directory. `name` is the table's name."""

    def __init__(self, files: DataFiles, name: str, layout: Layout) -> None:
        self._files = files
        self._name = name
        self._layout = layout
        self._staged: WriteSchema | None = None
        """Schema that staged files are known to match. This stays true: a directory's columns are never removed."""
        self._is_empty = False
        """True if no file was found that landed before schemas existed. This stays true."""

    def conform(self, frames: Sequence[DataFrame]) -> tuple[list[DataFrame], WriteSchema]:
        """Convert all these rows to the directory's columns. Runs no Spark job.

        Raises:
            SchemaMismatchError: The columns differ in a way that is not allowed.
        """
        from sarameya_handlers.spark.shaping.row_conversion import conform
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
                f"{self._name}, which has one schema for the rows of all topics that land there",
                evolve_schema=self._layout.evolve_schema,
            )
            columns = merged(columns, rows)
        assert columns is not None, "there are frames"
        wanted = struct(columns)
        return [conform(frame, wanted) for frame in frames], WriteSchema(
            number, columns, number == 0 or columns != table
        )

    def match_staged(self, landing: Landing) -> WriteSchema | None:
        """Return the columns that an attempt's staged file matches unchanged; None if Spark has to convert its rows."""
        import pyarrow.parquet as pq

        if self._staged is not None:
            return self._staged
        assert landing.staged is not None, "it has records"
        rows = of_arrow(pq.read_schema(landing.staged.path))
        number, table = self._newest()
        if table is None:
            return WriteSchema(0, rows, is_new=True, is_staged=True)
        return WriteSchema(number, table, is_new=number == 0, is_staged=True) if holds(table, rows) else None

    def put(self, schema: WriteSchema) -> None:
        """Put the schema with which rows were written, if it is new. Raises SchemaMovedError, OSError."""
        if schema.is_new and not self._files.schemas.put(StoredSchema(schema.number + 1, _text(schema.columns))):
            _, table = self._newest()
            if not holds(table, schema.columns):
                raise SchemaMovedError(
                    f"{self._name}: its schema was changed by another member while rows were written"
                )
        if schema.is_staged:
            self._staged = attrs.evolve(schema, is_new=False)

    def _newest(self) -> tuple[int, Columns | None]:
        """Return number and columns of the newest schema. Without one, the number is 0, the columns those of a file."""
        if (newest := self._files.schemas.newest()) is not None:
            return newest.number, columns_of(self._files, newest)
        if self._is_empty:
            return 0, None
        file = _data_file(self._files)
        self._is_empty = file is None
        return 0, None if file is None else _columns_in(self._files, file)

    def _partition_columns(self, rows: Columns) -> dict[str, Any]:
        """Return the partition columns of these rows. Files lack them: their values are the names of directories."""
        wanted = {column.lower() for column in self._layout.partition_by}
        return {"type": "struct", "fields": [field for field in rows["fields"] if field["name"].lower() in wanted]}


def newest_columns(files: DataFiles) -> Columns | None:
    """Return a directory's columns; None if it has no schema. Raises LandingError if the schema cannot be read."""
    newest = files.schemas.newest()
    return None if newest is None else columns_of(files, newest)


def columns_of(files: DataFiles, schema: StoredSchema) -> Columns:
    """Return the columns of a schema, all nullable.

    Raises:
        LandingError: The schema's file is not the JSON of a Spark struct.
    """
    try:
        columns = json.loads(schema.text)
        if columns["type"] == "struct" and isinstance(columns["fields"], list):
            return nullable(columns)  # type: ignore[no-any-return]
    except (ValueError, TypeError, LookupError) as error:
        raise LandingError(f"{files.schemas.place(schema.number)} is not a Spark schema: {error!r}") from error
    raise LandingError(f"{files.schemas.place(schema.number)} is not a Spark schema: it is not a struct")


def _text(columns: Columns) -> str:
    """Return the columns as `StructType.json` writes them."""
    return json.dumps(columns, separators=(",", ":"), sort_keys=True)


def _data_file(files: DataFiles) -> str | None:
    """Return a file of a chain's head, or else of an earlier link or a compaction; None if there is none."""
    heads = [head for key in files.manifests.chains() if (head := files.manifests.head(key))]
    for head in heads:
        for file in files.publish_link(head).files:
            if files.store.is_there(file.name):
                return file.name
    live = files.live()
    return live[-1][1] if live else None


def _columns_in(files: DataFiles, name: str) -> Columns:
    with open_file(files.store, name) as file:
        columns = (file.metadata.metadata or {}).get(_SPARK_METADATA)
        return nullable(json.loads(columns)) if columns else of_arrow(file.schema_arrow)
