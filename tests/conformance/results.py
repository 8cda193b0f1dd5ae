"""Results of the tests of landing, for docs/landing.md: `python -m tests.conformance.results FILE`.

`make conformance` sets LANDING_RESULTS to a file, to which each process of the run appends its results. If the run was
complete and all of them passed, they are summed up in docs/conformance.json, from which the block `<!-- results -->` of
the page is generated. A test of the suite has the marker `landing`: with `what`, a column of the page's table, and with
`table`, `store` and `spark`, its row. A contender has its row (`Contender.row`).
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "landing.md"
DOCUMENT = ROOT / "docs" / "conformance.json"
RESULTS = "LANDING_RESULTS"

COLUMNS = (
    "races",
    "killed",
    "stopped",
    "cancelled",
    "no response",
    "store faults",
    "Spark dies",
    "restored",
    "on Kafka",
)
"""Columns of the page's table: values of `what`."""

DELTA = "Delta, the sink commits"
"""Kind of a table in rows of several modules."""

_BLOCK = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- end -->)", re.DOTALL)


@attrs.frozen(order=True)
class Row:
    """A row of the page's table: a kind of table, the place of its files, and the Spark that lands."""

    table: str
    store: str
    spark: str


def row(table: str, store: str, spark: str) -> pytest.MarkDecorator:
    """Return the marker of a test's row."""
    return pytest.mark.landing(table=table, store=store, spark=spark)


def begin() -> None:
    """Start the file of a run with its commit, if LANDING_RESULTS is set. Called once, before the tests."""
    if RESULTS in os.environ:
        Path(os.environ[RESULTS]).unlink(missing_ok=True)
        _append(commit=_git("rev-parse", "--short", "HEAD"), is_changed=bool(_git("status", "--porcelain")))


def expect(items: Iterable[pytest.Item]) -> None:
    """Append the number of tests that a complete run has. Called once, before tests are deselected."""
    _append(expected=sum(bool(_place(item)) for item in items))


def end(status: int) -> None:
    """Append pytest's exit status. Called once, after the tests."""
    _append(status=status)


def record(item: pytest.Item, report: pytest.TestReport) -> None:
    """Append the result of a test with the marker `landing` to the file that LANDING_RESULTS names, if it does."""
    place = _place(item)
    if not place or (report.when != "call" and report.passed):
        return
    races = dict(item.user_properties).get("races", 0)
    _append(**place, passed=report.passed, races=races)


def _place(item: pytest.Item) -> dict[str, str]:
    """Return column and row of a test; nothing for one that is about no table."""
    marks = [mark.kwargs for mark in item.iter_markers("landing")]
    merged = {name: value for mark in reversed(marks) for name, value in mark.items()}
    return merged if "table" in merged else {}


def _append(**line: Any) -> None:
    if file := os.environ.get(RESULTS):
        with open(file, "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout.strip()


def complete(lines: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the commit and the results of a complete run.

    Raises:
        ValueError: The run has not ended or has failed, left out tests, or its files were not those of a commit.
    """
    first, last = lines[0], lines[-1]
    results = [line for line in lines if "what" in line]
    [expected] = [line["expected"] for line in lines if "expected" in line]
    if first.get("is_changed") is not False or last.get("status") != 0 or len(results) != expected:
        raise ValueError(f"no complete run of a commit: {first}, {len(results)} results of {expected}, {last}")
    return first["commit"], results


def summed_up(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, with the number of passed tests or races in each column.

    Raises:
        ValueError: A result has no row or column of the table, or a test did not pass.
    """
    rows: dict[Row, dict[str, int]] = defaultdict(dict)
    for result in results:
        if result.get("what") not in COLUMNS or "table" not in result:
            raise ValueError(f"{dict(result)} has no row or column")
        if not result["passed"]:
            raise ValueError(f"{dict(result)} did not pass: the page is not changed")
        cells = rows[Row(result["table"], result["store"], result["spark"])]
        number = result["races"] if result["what"] == "races" else 1
        cells[result["what"]] = cells.get(result["what"], 0) + number
    return [{**attrs.asdict(row), "passed": cells} for row, cells in sorted(rows.items())]


def lake_versions() -> dict[str, str]:
    """Return the versions of the table formats that the tests run."""
    namespace = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(ROOT / "tests" / "integration" / "lakes" / "pom.xml")
    return {
        name: pom.findtext(f".//m:{key}.version", "", namespace)
        for name, key in (("Delta Lake", "wanted"), ("Iceberg", "iceberg"))
    }


def versions() -> dict[str, str]:
    """Return the versions of the programs that the tests of landing run."""
    from tests.integration.object_stores import azurite, gateway
    from tests.integration.real_kafka import KAFKA_3_VERSION, KAFKA_VERSION

    return {
        "Python": platform.python_version(),
        "PySpark": version("pyspark"),
        **lake_versions(),
        "deltalake": version("deltalake"),
        "obstore": version("obstore"),
        "Versity S3 Gateway": gateway.VERSION.removeprefix("v"),
        "Azurite": azurite.VERSION,
        "Apache Kafka": f"{KAFKA_VERSION} and {KAFKA_3_VERSION}",
    }


def render(page: str, document: Mapping[str, Any]) -> str:
    """Return the page with its block generated from the document."""
    lines = [
        f"Passed on {document['date']}, commit {document['commit']}: "
        + ", ".join(f"{name} {number}" for name, number in document["versions"].items())
        + ".",
        "",
        "| table | files | Spark | " + " | ".join(COLUMNS) + " |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    for each in document["rows"]:
        cells = [f"{each['passed'][column]:,}" if column in each["passed"] else "" for column in COLUMNS]
        lines.append(f"| {each['table']} | {each['store']} | {each['spark']} | " + " | ".join(cells) + " |")
    return _BLOCK.sub(lambda _: "\n".join(lines) + "\n", page)


def main(file: Path) -> None:
    """Write docs/conformance.json and the page's block from a file of results.

    Raises:
        ValueError: The run was not complete, or a test did not pass.
    """
    commit, found = complete([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])
    document = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "versions": versions(),
        "rows": summed_up(found),
    }
    DOCUMENT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), document), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
