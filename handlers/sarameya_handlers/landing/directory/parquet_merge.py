"""Merges Parquet files without changing a value, a type, or an annotation. Refuses files where it cannot.

pyarrow does not write every Parquet type as it reads it: INT96 becomes INT64, or overflows. So a file is rewritten only
if pyarrow's writer produces the same Parquet schema, physical and logical types included. Blocking.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sarameya_handlers.landing.stores.store import Store

ROW_GROUP_ROWS = 2**20
ROW_GROUP_BYTES = 128 * 2**20
"""Size of a row group in memory, as Arrow columns."""
_BATCH_ROWS = 2**16
"""Most rows that are read at once."""
_BATCH_BYTES = 2**24
"""Bytes that are read at once, about: as the file counts its columns, before compression."""
_INDENT = "  "
_ARROW_SCHEMA_KEY = b"ARROW:schema"
_SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
"""Key of Spark's schema in a file's metadata, as JSON. Only this has the comments of fields, for example."""
_READER_DETAILS = re.compile(", is_from_converted_type=\\w+, force_set_converted_type=\\w+")
"""Parts of pyarrow's text of a timestamp that do not come from the file."""

OpenFile = Callable[[], Any]
"""Opens a `pyarrow.parquet.ParquetFile`."""


@attrs.frozen(slots=True, eq=False)
class FileSchema:
    """Schema of a Parquet file."""

    arrow: Any
    """Schema as Arrow reads it."""
    columns: Mapping[str, str]
    """Schema of each top-level column in the file, as text."""
    options: Mapping[str, bool]
    """Options of pyarrow's writer that reproduce these columns."""
    refusal: str
    """Reason why the file cannot be rewritten exactly; empty if it can."""


def schema_of(open_file: OpenFile, known: dict[tuple[object, ...], FileSchema]) -> FileSchema:
    """Read the schema of a file, and determine whether it can be rewritten exactly.

    Args:
        open_file: Opens the file.
        known: Schemas read so far. Files with equal schemas share one object.
    """
    with open_file() as file:
        arrow, columns = file.schema_arrow, _columns(file.schema)
        options = {
            "store_schema": _ARROW_SCHEMA_KEY in (file.metadata.metadata or {}),
            "store_decimal_as_integer": bool(re.search(r"int(32|64) .*Decimal", str(file.schema))),
        }
    key = (arrow.serialize().to_pybytes(), *columns.values(), *options.values())
    if key not in known:
        known[key] = FileSchema(arrow, columns, options, _refusal(arrow, columns, options))
    return known[key]


def _columns(schema: Any) -> dict[str, str]:
    """Return the text of each top-level column of a Parquet schema, by its name."""
    texts: list[str] = []
    lines: list[str] = []
    for line in _READER_DETAILS.sub("", str(schema)).splitlines()[2:-1]:
        lines.append(line.removeprefix(_INDENT))
        if not line.startswith(2 * _INDENT) and not line.endswith("{"):
            texts.append("\n".join(lines))
            lines = []
    return dict(zip(schema.to_arrow_schema().names, texts, strict=True))


def _refusal(arrow: Any, columns: Mapping[str, str], options: Mapping[str, bool]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len({name.lower() for name in arrow.names}) < len(arrow.names):
        return "two column names differ only in case"
    empty = io.BytesIO()
    try:
        with pq.ParquetWriter(empty, arrow, **options):
            pass
    except pa.ArrowException as error:
        return f"pyarrow does not write its schema: {error}"
    written = pq.read_schema(empty), _columns(pq.ParquetFile(empty).schema)
    for field in arrow:
        if columns[field.name] != written[1][field.name]:
            return f"pyarrow would not write column {field.name!r} as it is: {columns[field.name]}"
        if not field.equals(written[0].field(field.name), check_metadata=True):
            return f"pyarrow would not read column {field.name!r} as it is: {field.type}"
    return ""


def can_merge(one: FileSchema, other: FileSchema) -> bool:
    """Return whether two files can be merged: common columns and metadata are equal. Either may lack columns."""
    if one.options != other.options or _comparable_metadata(one) != _comparable_metadata(other):
        return False
    spark, others = _spark_fields(one), _spark_fields(other)
    if any(_nullable(spark[name]) != _nullable(others[name]) for name in spark.keys() & others.keys()):
        return False
    fields = {field.name.lower(): field for field in one.arrow}
    return all(
        mine.name == field.name
        and _all_nullable(mine).equals(_all_nullable(field), check_metadata=True)
        and _all_optional(one.columns[mine.name]) == _all_optional(other.columns[field.name])
        for field in other.arrow
        if (mine := fields.get(field.name.lower())) is not None
    )


def _all_nullable(field: Any) -> Any:
    """Return the field with every field in it nullable: the merged file is nullable where any of its sources is."""
    import pyarrow as pa
    from pyarrow import types

    kind = field.type
    if types.is_struct(kind):
        kind = pa.struct([_all_nullable(inner) for inner in kind])
    elif types.is_map(kind):
        kind = pa.map_(kind.key_type, _all_nullable(kind.item_field))
    elif types.is_list(kind):
        kind = pa.list_(_all_nullable(kind.value_field))
    return pa.field(field.name, kind, metadata=field.metadata)


def _comparable_metadata(schema: FileSchema) -> dict[bytes, bytes]:
    """Return the file's metadata without the content of Spark's schema: `can_merge` compares that by column."""
    metadata = dict(schema.arrow.metadata or {})
    if _spark_fields(schema):
        metadata[_SPARK_SCHEMA_KEY] = b""
    return metadata


def _spark_fields(schema: FileSchema) -> dict[str, Any]:
    """Return Spark's schema of each column; empty if the metadata lacks a column."""
    try:
        stored = json.loads((schema.arrow.metadata or {})[_SPARK_SCHEMA_KEY])
        fields = {field["name"]: field for field in stored["fields"]}
    except (KeyError, TypeError, ValueError):
        return {}
    return fields if fields.keys() >= set(schema.arrow.names) else {}


def _nullable(kind: Any) -> Any:
    """Return a field or type of Spark's JSON as `_all_nullable` returns a field."""
    if isinstance(kind, list):
        return [_nullable(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    nulls = {"nullable", "containsNull", "valueContainsNull"}
    return {key: True if key in nulls else _nullable(one) for key, one in kind.items()}


def _all_optional(column: str) -> str:
    """Return the text of a column in a file's schema with nothing in it required, as `_all_nullable` does."""
    return column.replace("required ", "optional ")


def merged(schemas: Sequence[FileSchema]) -> FileSchema:
    """Return the schema of the merged file: the columns of all files, nullable where one of them lacks it.

    Args:
        schemas: Schemas of the files. Each pair of them must pass `can_merge`.
    """
    import pyarrow as pa

    first = schemas[0]
    unified = pa.unify_schemas([schema.arrow for schema in schemas])
    lacking = {name for name in unified.names if any(name not in schema.columns for schema in schemas)}
    fields = [field.with_nullable(True) if field.name in lacking else field for field in unified]
    columns = {name: text for schema in schemas for name, text in schema.columns.items()}
    return attrs.evolve(first, arrow=pa.schema(fields, metadata=_merged_metadata(schemas, fields)), columns=columns)


def _merged_metadata(schemas: Sequence[FileSchema], fields: Sequence[Any]) -> dict[bytes, bytes] | None:
    """Return the common metadata, with Spark's schema of the merged file."""
    first: dict[bytes, bytes] | None = schemas[0].arrow.metadata
    spark = {name: field for schema in schemas for name, field in _spark_fields(schema).items()}
    if first is None or not spark:
        return first
    columns = [{**spark[field.name], "nullable": True} if field.nullable else spark[field.name] for field in fields]
    return {**first, _SPARK_SCHEMA_KEY: json.dumps({"type": "struct", "fields": columns}).encode()}


def write(sources: Sequence[OpenFile], schema: FileSchema, into: Path, check: Callable[[], None]) -> None:
    """Write the rows of these files, in order, into one file of the `merged` schema.

    Args:
        sources: Open the files to merge.
        schema: Schema of the new file.
        into: Path of the new file.
        check: Called for each batch. An exception from it ends the write, and propagates.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(into, schema.arrow, compression="zstd", **schema.options) as writer:
        if schema.arrow.metadata and not schema.options["store_schema"]:  # a stored schema contains the metadata
            writer.add_key_value_metadata(schema.arrow.metadata)
        for group in _row_groups(sources, schema.arrow, check):
            writer.write_table(pa.Table.from_batches(group, schema.arrow), row_group_size=ROW_GROUP_ROWS)


def _row_groups(sources: Sequence[OpenFile], schema: Any, check: Callable[[], None]) -> Iterator[list[Any]]:
    group: list[Any] = []
    rows = size = 0
    for open_file in sources:
        with open_file() as file:
            for batch in file.iter_batches(batch_size=_batch_size(file.metadata)):
                check()
                if group and (rows + batch.num_rows > ROW_GROUP_ROWS or size + batch.nbytes > ROW_GROUP_BYTES):
                    yield group
                    group, rows, size = [], 0, 0
                group.append(_widened(batch, schema))
                rows, size = rows + batch.num_rows, size + batch.nbytes
    if group:
        yield group


def _batch_size(metadata: Any) -> int:
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES * metadata.num_rows // max(size, 1))))


def _widened(batch: Any, schema: Any) -> Any:
    import pyarrow as pa

    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def open_file(store: Store, name: str) -> Any:
    """Open a Parquet file as a `pyarrow.parquet.ParquetFile`. Raises FileNotFoundError."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(store.open(name))


def count_rows(store: Store, name: str) -> int:
    """Return the number of rows of a Parquet file."""
    with open_file(store, name) as file:
        return int(file.metadata.num_rows)
