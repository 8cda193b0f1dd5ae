from __future__ import annotations

import json
from pathlib import Path

import pytest

from sarameya.service.cli import main
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from tests.handlers.audit.kit import land

KEY = ChainKey("sarameya", "orders", 0)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    """Return a table with three links of ten rows."""
    table = ParquetTable(tmp_path / "orders")
    table.open(None)  # type: ignore[arg-type]
    origin = Origin(group="billing")
    for n in range(3):
        land(
            table,
            Link(key=KEY, number=n + 1, from_offset=10 * n, to_offset=10 * n + 10, attempt=f"a{n}", origin=origin),
        )
    return table


def test_small_files_are_merged_and_the_table_is_proved(
    table: ParquetTable, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compact", str(table.path), "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{table.name}: 3 files became 1, with 30 rows\n"
    assert printed.err == ""
    assert len(list(table.path.glob("*.parquet"))) == 1
    assert main(["verify", str(table.path), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["compact", str(table.path), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "table": table.name,
        "compaction": None,
        "replaced": 0,
        "files": 0,
        "rows": 0,
        "refused": [],
    }


def test_files_above_the_size_are_not_compacted(table: ParquetTable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", str(table.path), "--file-size", "1B"]) == 0
    assert "there are no small files" in capsys.readouterr().out
    assert len(list(table.path.glob("*.parquet"))) == 3


@pytest.mark.parametrize(
    ("place", "message"), [("delta:/x", "OPTIMIZE and VACUUM"), ("iceberg:c.d.t", "rewrite_data_files")]
)
def test_compact_of_other_formats_names_their_own_command(
    place: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compact", place]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("size", ["128", "0MB", "1TB", "x"])
def test_size_without_a_valid_unit_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", "x", "--file-size", size]) == 2
    assert "must be a whole number with one of B, KB, MB, GB" in capsys.readouterr().err
