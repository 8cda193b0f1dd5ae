"""Results of the suite become the table in docs/landing.md."""

from __future__ import annotations

import json

import pytest

from tests.conformance.contenders import CONTENDERS
from tests.conformance.results import COLUMNS, DOCUMENT, PAGE, complete, render, summed_up

RESULT = {"table": "Parquet", "store": "disk", "spark": "none", "what": "races", "passed": True, "races": 20}


def test_results_of_a_row_are_summed_up() -> None:
    killed = {**RESULT, "what": "killed", "races": 0}
    other = {**RESULT, "table": "Delta"}
    assert summed_up([RESULT, killed, RESULT, killed, killed, other]) == [
        {"table": "Delta", "store": "disk", "spark": "none", "passed": {"races": 20}},
        {"table": "Parquet", "store": "disk", "spark": "none", "passed": {"races": 40, "killed": 3}},
    ]


@pytest.mark.parametrize("wrong", [{"passed": False}, {"what": "unknown"}])
def test_failed_or_unknown_result_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"unknown|did not pass"):
        summed_up([RESULT | wrong])


HEADER = {"commit": "abc", "is_changed": False}
END = {"status": 0}


def test_complete_run_is_accepted() -> None:
    assert complete([HEADER, {"expected": 1}, RESULT, END]) == ("abc", [RESULT])


@pytest.mark.parametrize(
    "lines",
    [
        [HEADER | {"is_changed": True}, {"expected": 1}, RESULT, END],
        [HEADER, {"expected": 2}, RESULT, END],
        [HEADER, {"expected": 1}, RESULT],
        [HEADER, {"expected": 1}, RESULT, {"status": 1}],
    ],
    ids=["changed files", "tests left out", "not ended", "failed"],
)
def test_incomplete_run_is_refused(lines: list[dict[str, object]]) -> None:
    with pytest.raises(ValueError, match="no complete run of a commit"):
        complete(lines)


def test_page_has_the_stored_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, json.loads(DOCUMENT.read_text(encoding="utf-8"))) == page


def test_every_contender_has_its_row() -> None:
    rows = {(row["table"], row["store"], row["spark"]) for row in json.loads(DOCUMENT.read_text())["rows"]}
    missing = {(*contender.row, str(contender.runs)) for contender in CONTENDERS.values()} - rows
    assert not missing, "run `make conformance`"


def test_every_column_has_a_result() -> None:
    found = {what for row in json.loads(DOCUMENT.read_text())["rows"] for what in row["passed"]}
    assert found == set(COLUMNS)
