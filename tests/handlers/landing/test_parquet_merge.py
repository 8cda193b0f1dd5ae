"""Merged schemas of Parquet files keep Spark's metadata about the columns."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sarameya_handlers.landing.directory.parquet_merge import FileSchema, can_merge, merged, schema_of, write

KEY = b"org.apache.spark.sql.parquet.row.metadata"


def by_spark(*columns: str, comment: str = "", nullable: bool = False) -> FileSchema:
    """Return the schema of a file with these columns, with metadata as Spark writes them."""
    fields = [
        {"name": name, "type": "long", "nullable": nullable, "metadata": {"comment": comment} if comment else {}}
        for name in columns
    ]
    arrow = pa.schema([pa.field(name, pa.int64(), nullable) for name in columns])
    file = io.BytesIO()
    with pq.ParquetWriter(file, arrow, store_schema=False) as writer:
        writer.add_key_value_metadata({KEY: json.dumps({"type": "struct", "fields": fields})})
    return schema_of(partial(pq.ParquetFile, io.BytesIO(file.getvalue())), {})


def spark_fields(schema: FileSchema) -> dict[str, Any]:
    return {field["name"]: field for field in json.loads(schema.arrow.metadata[KEY])["fields"]}


def test_fault_52_added_columns_are_merged_by_sparks_metadata() -> None:
    before, after = by_spark("a", comment="of a"), by_spark("a", "b", comment="of a")
    assert can_merge(before, after)
    found = spark_fields(merged([before, after]))
    assert found.keys() == {"a", "b"}
    assert found["b"]["nullable"], "rows of the first file have no value"
    assert not found["a"]["nullable"]
    assert found["a"]["metadata"] == {"comment": "of a"}


def test_fault_52_merged_file_has_sparks_metadata(tmp_path: Path) -> None:
    schema = merged([by_spark("a", comment="of a"), by_spark("a", "b", comment="of a")])
    write([], schema, tmp_path / "merged.parquet", lambda: None)
    assert pq.read_schema(tmp_path / "merged.parquet").metadata == schema.arrow.metadata


def test_fault_52_different_spark_metadata_is_not_merged() -> None:
    assert not can_merge(by_spark("a", comment="one"), by_spark("a", "b", comment="another"))
    assert can_merge(by_spark("a"), by_spark("a", nullable=True)), "different nullability does not prevent a merge"
