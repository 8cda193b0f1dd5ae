"""Printed tables, exit codes and documents of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.common.documents import of_json
from bench.common.presenting import present
from bench.common.tables import Table
from tests.bench.common.kit import result, table

GOOD = table(result("ours", 2_000.0, is_ours=True))
BAD = table(result("theirs", failures=("exited with 1",)))


def test_tables_and_versions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert present("consume", "one broker", [GOOD], None) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("consume: one broker; medians (least, most)\n")
    assert "load 1.2\n" in printed
    assert [line.split() for line in printed.splitlines() if line.startswith("ours ")][-1] == ["ours", "1.2.3"]


def test_failure_in_any_table_returns_exit_code_1() -> None:
    assert present("consume", "one broker", [GOOD, BAD, GOOD], None) == 1


def test_document_has_all_tables(tmp_path: Path) -> None:
    present("consume", "one broker", [GOOD, BAD], tmp_path / "figures.json")

    assert len(of_json((tmp_path / "figures.json").read_text()).tables) == 2


def test_document_has_the_tables_before_a_failure(tmp_path: Path) -> None:
    def broken() -> Iterator[Table]:
        yield GOOD
        raise RuntimeError("no broker any more")

    with pytest.raises(RuntimeError):
        present("consume", "one broker", broken(), tmp_path / "figures.json")
    assert len(of_json((tmp_path / "figures.json").read_text()).tables) == 1


def test_unwritable_path_is_reported_before_measuring(tmp_path: Path) -> None:
    def measured() -> Iterator[Table]:
        raise AssertionError
        yield GOOD

    with pytest.raises(FileNotFoundError):
        present("consume", "one broker", measured(), tmp_path / "missing" / "figures.json")
