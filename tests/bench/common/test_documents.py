"""JSON documents of benchmark results."""

from __future__ import annotations

import json
from pathlib import Path

from bench.common.documents import of_json, read, to_json
from bench.common.tables import Goal
from tests.bench.common.kit import document, result, table

DOCUMENT = document(
    table(
        result("ours", 2_000, 4_000, is_ours=True),
        result("theirs", 1_000, 1_000),
        result("failed", failures=("exited with 1",)),
        goal=Goal(2.2),
        bound=Goal(1.0, at_most=True),
    )
)


def test_document_survives_a_json_round_trip() -> None:
    assert to_json(of_json(to_json(DOCUMENT))) == to_json(DOCUMENT)


def test_json_has_every_contender_ratio_and_goal() -> None:
    found = json.loads(to_json(DOCUMENT))
    [one] = found["tables"]

    assert found["versions"] == {"ours": "1.2.3", "theirs": "1.2.3", "failed": "1.2.3"}
    assert one["rows"][0]["figures"]["rate"] == {"median": 3_000.0, "least": 2_000.0, "most": 4_000.0}
    assert (one["rows"][2]["figures"], one["rows"][2]["failures"]) == ({}, ["exited with 1"])
    assert one["ratios"][0]["spread"] == {"median": 3.0, "least": 2.0, "most": 4.0}
    assert one["ratios"][0]["goal"] == {"bound": 2.2, "at_most": False}
    assert one["ratios"][0]["reached"] is True
    assert one["checks"][0]["reached"] is False


def test_all_documents_of_a_directory_are_read(tmp_path: Path) -> None:
    (tmp_path / "consume.json").write_text(to_json(DOCUMENT))
    (tmp_path / "notes.txt").write_text("no document")

    assert [found.bench for found in read(tmp_path)] == ["consume"]
