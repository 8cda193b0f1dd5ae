from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sarameya import ConfigError
from sarameya_handlers import ParquetTable
from sarameya_handlers.spark.tables.named import parse_table, table_named
from sarameya_handlers.spark.tables.table import Layout


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("landing/orders", ("parquet", "landing/orders")),
        ("orders", ("parquet", "orders")),
        ("/data/a:b", ("parquet", "/data/a:b")),
        ("./a:b", ("parquet", "./a:b")),
        ("parquet:/data/a:b", ("parquet", "/data/a:b")),
        ("delta:/data/orders", ("delta", "/data/orders")),
        ("delta:db.orders", ("delta", "db.orders")),
        ("delta:s3://bucket/orders", ("delta", "s3://bucket/orders")),
        ("iceberg:lake.db.orders", ("iceberg", "lake.db.orders")),
    ],
)
def test_table_name_is_kind_and_place(name: str, parsed: tuple[str, str]) -> None:
    assert parse_table(name) == parsed


@pytest.mark.parametrize("name", ["", "delta:", "s3:x", "hudi:db.orders", ":x", None, 7])
def test_invalid_table_name_is_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="must be parquet:PATH, delta:PATH"):
        parse_table(name)  # type: ignore[arg-type]


def test_misspelt_kind_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean iceberg:lake\.db\.orders\?"):
        parse_table("icebreg:lake.db.orders")


def test_table_takes_its_options(tmp_path: Path) -> None:
    table = table_named(f"parquet:{tmp_path}", {"layout": Layout(partition_by=("day",))})
    assert isinstance(table, ParquetTable)
    assert table.name == f"parquet:{tmp_path}"
    with pytest.raises(ConfigError, match=r"layuot.*did you mean 'layout'"):
        table_named(str(tmp_path), {"layuot": Layout()})


def test_table_name_round_trips(tmp_path: Path) -> None:
    table = table_named(str(tmp_path))
    assert repr(table_named(table.name)) == repr(table)


def test_parquet_table_needs_no_spark_import(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from sarameya_handlers.spark.tables.named import table_named\n"
        f"print(table_named({str(tmp_path)!r}).keys(None))\n"
        "print([name for name in ('pyspark', 'py4j', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]"]
