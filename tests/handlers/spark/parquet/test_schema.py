"""Schemas of a Parquet directory, checked against new rows. No Spark runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from sarameya_handlers import LandingError, Layout, ParquetTable
from sarameya_handlers.landing.directory.schemas import Schemas, StoredSchema
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.parquet.schema import SchemaMovedError
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.handlers.spark.kit import FakeFrame, FakeSpark

KEY = ChainKey("sarameya", "orders", 3)
PLAIN = Shaping()
ROWS = pa.table({"id": [1, 2]})
NAMED = pa.table({"id": [3], "name": ["x"]})
SIZED = pa.table({"id": [3], "size": [1.5]})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "orders"


def opened(root: Path, *, evolve_schema: bool = False) -> ParquetTable:
    table = ParquetTable(root, layout=Layout(evolve_schema=evolve_schema))
    table.open(None)
    return table


def land(
    table: ParquetTable,
    number: int,
    rows: pa.Table,
    *,
    shape: Shaping | None = None,
    key: ChainKey = KEY,
    checkpoint: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
) -> None:
    """Land rows that a transform has made or, with `shape`, staged rows."""
    link = Link(
        key=key,
        number=number,
        from_offset=number,
        to_offset=number + 1,
        attempt=f"a{key.partition}-{number}-{id(table)}",
        origin=Origin(group="flights"),
    )
    path = table.staging.directory / f"{link.attempt}.parquet"
    pq.write_table(rows, path)
    landing = Landing(link=link, staged=StagedFile(path), records=rows.num_rows)
    table.land(FakeSpark(), [landing], shape or Shaping(transform=lambda frame: FakeFrame(rows)), checkpoint)


def columns(root: Path) -> list[str]:
    """Return the columns of every schema of the directory."""
    files = sorted((root / "_sarameya" / "schemas").glob("*"))
    return [StructType.fromJson(json.loads(file.read_text())).simpleString() for file in files]


def linked(table: ParquetTable) -> list[int]:
    return [link.number for link in table.links(None, KEY, 1)]


def rows_of(table: ParquetTable, *names: str) -> list[dict[str, Any]]:
    return [row for batch in table.batches(names) for row in batch.to_pylist()]


@pytest.mark.parametrize("shape", [PLAIN, None], ids=["adopted", "written"])
def test_first_rows_define_the_schema(root: Path, shape: Shaping | None) -> None:
    table = opened(root)
    land(table, 1, ROWS.slice(0, 0))
    assert columns(root) == []
    strict = pa.table({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    land(table, 2, strict, shape=shape)
    land(table, 3, ROWS, shape=shape)
    assert columns(root) == ["struct<id:bigint>"]
    (file,) = (root / "_sarameya" / "schemas").iterdir()
    assert StructType.fromJson(json.loads(file.read_text())) == StructType().add("id", LongType(), nullable=True)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (NAMED, r"the table has no name string: .*, or set evolve_schema = true"),
        (pa.table({"id": ["1"]}), r"the types of id \(string in the rows, bigint in the table\) are incompatible"),
    ],
)
def test_rows_of_another_schema_are_refused(root: Path, rows: pa.Table, expected: str) -> None:
    table = opened(root)
    land(table, 1, ROWS)
    with pytest.raises(SchemaMismatchError, match=rf"parquet:{root}, which has one schema .* topics .*: {expected}"):
        land(table, 2, rows)
    assert (linked(table), columns(root)) == ([1], ["struct<id:bigint>"])
    assert list((root / "_sarameya" / "landing").rglob("*")) == []
    land(table, 2, ROWS)


def test_new_columns_create_the_next_schema(root: Path) -> None:
    table = opened(root, evolve_schema=True)
    land(table, 1, ROWS)
    land(table, 2, NAMED)
    land(table, 3, NAMED)
    assert columns(root) == ["struct<id:bigint>", "struct<id:bigint,name:string>"]
    nulls = [{"id": 1, "name": None}, {"id": 2, "name": None}]
    assert rows_of(table, "id", "name", "other") == [*nulls, *2 * [{"id": 3, "name": "x"}]]
    assert rows_of(opened(root), "name") == [{"name": None}, {"name": None}, *2 * [{"name": "x"}]]


def test_failed_write_leaves_no_schema(root: Path) -> None:
    class Failing(FakeFrame):
        def parquet(self, path: str) -> None:
            raise OSError("no such type in a file")

    table = opened(root)
    with pytest.raises(OSError, match="no such type"):
        land(table, 1, ROWS, shape=Shaping(transform=lambda frame: Failing(ROWS)))
    assert columns(root) == []
    land(table, 1, NAMED)
    assert columns(root) == ["struct<id:bigint,name:string>"]


@pytest.mark.parametrize("shape", [PLAIN, None], ids=["adopted", "written"])
def test_one_of_two_different_first_schemas_is_retried(root: Path, shape: Shaping | None) -> None:
    table, other = opened(root), opened(root)

    def meanwhile(phase: Phase, landings: Sequence[Landing]) -> None:
        land(other, 1, NAMED, key=ChainKey("sarameya", "orders", 4))

    with pytest.raises(SchemaMovedError, match="its schema was changed by another member") as raised:
        land(table, 1, SIZED, checkpoint=meanwhile, shape=shape)
    assert raised.value.passes
    assert (linked(table), columns(root)) == ([], ["struct<id:bigint,name:string>"])
    with pytest.raises(SchemaMismatchError, match="the table has no size double"):
        land(table, 1, SIZED, shape=shape)


@pytest.mark.parametrize(("rows", "other_rows"), [(ROWS, ROWS), (NAMED, NAMED), (ROWS, NAMED)])
def test_two_compatible_first_schemas_both_land(root: Path, rows: pa.Table, other_rows: pa.Table) -> None:
    table, other = opened(root), opened(root)
    land(
        table,
        1,
        rows,
        checkpoint=lambda phase, landings: land(other, 1, other_rows, key=ChainKey("sarameya", "orders", 4)),
    )
    assert linked(table) == [1]
    assert len(columns(root)) == 1
    assert len(rows_of(table, "id", "name")) == rows.num_rows + other_rows.num_rows


def test_one_of_two_schema_changes_is_retried(root: Path) -> None:
    table, other = opened(root, evolve_schema=True), opened(root, evolve_schema=True)
    land(table, 1, ROWS)
    with pytest.raises(SchemaMovedError):
        land(
            table,
            2,
            SIZED,
            checkpoint=lambda phase, landings: land(other, 1, NAMED, key=ChainKey("sarameya", "orders", 4)),
        )
    assert columns(root) == ["struct<id:bigint>", "struct<id:bigint,name:string>"]
    assert linked(table) == [1]


def test_directory_without_schemas_uses_its_files(root: Path) -> None:
    land(opened(root), 1, NAMED)
    land(opened(root), 2, NAMED.slice(0, 0))
    shutil.rmtree(root / "_sarameya" / "schemas")
    table = opened(root)
    assert rows_of(table, "id", "name") == [{"id": 3, "name": "x"}]
    with pytest.raises(SchemaMismatchError, match="the table has no size double"):
        land(table, 3, SIZED)
    with pytest.raises(SchemaMismatchError, match="the table has no size double"):
        land(table, 3, SIZED, shape=PLAIN)
    assert columns(root) == []
    land(table, 3, ROWS, shape=PLAIN)
    assert columns(root) == ["struct<id:bigint,name:string>"]


def test_spark_metadata_of_a_file_defines_its_schema(root: Path) -> None:
    table = opened(root)
    spark_schema = StructType().add("id", StringType(), False).json()
    key = "org.apache.spark.sql.parquet.row.metadata"
    land(table, 1, ROWS.replace_schema_metadata({key: spark_schema}))
    shutil.rmtree(root / "_sarameya" / "schemas")
    land(table, 2, pa.table({"id": ["a"]}))
    assert columns(root) == ["struct<id:string>"]


def test_staged_schema_is_checked_once_per_table_object(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    newest = Schemas.newest
    monkeypatch.setattr(Schemas, "newest", lambda self: reads.append(1) or newest(self))
    table = opened(root)
    for number in range(1, 5):
        land(table, number, ROWS, shape=PLAIN)
    assert len(reads) == 1
    land(opened(root, evolve_schema=True), 5, NAMED)
    land(table, 6, ROWS, shape=PLAIN)
    assert [row["name"] for row in rows_of(table, "name")] == [None] * 8 + ["x"] + [None] * 2


def test_staged_file_of_another_schema_is_refused(root: Path) -> None:
    table = opened(root)
    land(table, 1, NAMED)
    with pytest.raises(SchemaMismatchError, match="the table has no size double"):
        land(table, 2, SIZED, shape=PLAIN)
    land(table, 2, ROWS, shape=PLAIN)
    assert linked(table) == [1, 2]


@pytest.mark.parametrize("text", ["{", "[]", '"string"', '{"type": "array"}'])
def test_invalid_schema_file_is_named_in_the_error(root: Path, text: str) -> None:
    table = opened(root)
    Schemas(LocalStore(root)).put(StoredSchema(1, text))
    with pytest.raises(LandingError, match=r"/_sarameya/schemas/0+1\.json is not a Spark schema"):
        land(table, 1, ROWS)


def test_unpublished_schema_is_a_leftover(root: Path) -> None:
    table = opened(root)
    land(table, 1, ROWS, shape=PLAIN)
    (root / "_sarameya" / "schemas" / ".put-x").write_bytes(b"12")
    (leftover,) = table.leftovers(None)
    assert (leftover.size_bytes, leftover.what) == (2, "a schema that was not put")
    table.remove(None, leftover)
    assert table.leftovers(None) == []
    assert columns(root) == ["struct<id:bigint>"]


def test_adopting_and_reading_need_no_pyspark(root: Path) -> None:
    script = f"""
import sys
import pyarrow.parquet as pq
from sarameya.arrow import kafka_schema
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing

table = ParquetTable({str(root)!r})
table.open(None)
record = dict(topic="t", partition=0, offset=7, timestampType=0)
rows = kafka_schema().empty_table().from_pylist([record], schema=kafka_schema())
for number in (1, 2):
    link = Link(key=ChainKey("s", "t", 0), number=number, from_offset=number, to_offset=number + 1,
                attempt=str(number), origin=Origin(group="g"))
    pq.write_table(rows, table.staging.directory / "x.parquet")
    landing = Landing(link=link, staged=StagedFile(table.staging.directory / "x.parquet"), records=1)
    table.land(None, [landing], Shaping(), lambda phase, landings: None)
print([row for batch in table.batches(["offset"]) for row in batch.to_pylist()], "pyspark" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[{'offset': 7}, {'offset': 7}] False"
    assert columns(root)[0].startswith("struct<key:binary,value:binary,topic:string,partition:int,offset:bigint")
