"""What is printed, and what programs get."""

from __future__ import annotations

import json

import pytest

from bench.common.machine import Machine
from bench.consume.document import document
from bench.consume.figures import Run
from bench.consume.options import Plan
from bench.consume.report import print_report
from tests.bench.consume.kit import COMBINATION, field, result

FIELD = field(
    result("sarameya-messages", 1.0, 2.0, 1.0),
    result("sarama", 2.0, 2.0, 4.0),
    result("java", 1.0, failures=("read 1 messages of 1000", "read 1 messages of 1000")),
)


def test_table_has_medians_ratios_goals_failures_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    run = print_report(Plan((COMBINATION,), (), 3, False), iter([FIELD]))

    *told, versions, _, _, _ = lines = capsys.readouterr().out.splitlines()
    assert run.fields == [FIELD]
    assert [" ".join(line.split()) for line in told if line.startswith("sarameya-messages  ")] == [
        "sarameya-messages 1 (0, 1) 0 1.00 (1.00, 2.00) 1.50 (1.50, 2.50) 1.25 (1.25, 2.25) 50 (50, 50)"
    ]
    assert [" ".join(line.split()) for line in told if line.startswith("sarameya-messages / ")] == [
        "sarameya-messages / sarama 2.00 (1.00, 4.00) 0.70 reached"
    ]
    assert [line.split(maxsplit=1)[1] for line in told if line.startswith("java")] == [
        "FAILED in 2 of 3: read 1 messages of 1000"
    ]
    assert versions == "versions"
    assert [line.split() for line in lines[-3:]] == [
        ["sarameya-messages", "1.2.3"],
        ["sarama", "1.2.3"],
        ["java", "1.2.3"],
    ]


def test_goal_just_missed_does_not_read_as_reached(capsys: pytest.CaptureFixture[str]) -> None:
    near = field(result("sarameya-messages", 1.0), result("sarama", 0.696))
    print_report(Plan((COMBINATION,), (), 1, False), iter([near]))

    assert "0.696 (0.696, 0.696)           0.70 missed" in capsys.readouterr().out


def test_document_is_json_with_every_contender_and_ratio() -> None:
    told = json.loads(json.dumps(document(Run(Machine.here(), 3, [FIELD]))))

    [combination] = told["combinations"]
    ours, _, java = combination["contenders"]
    assert (combination["size"], combination["codec"], combination["values"]) == (200, "none", "random")
    assert ours["figures"]["messages_per_second"] == {"median": 1000.0, "least": 500.0, "most": 1000.0}
    assert (java["figures"], java["failures"]) == (None, ["read 1 messages of 1000"] * 2)
    assert combination["ratios"] == [
        {
            "ours": "sarameya-messages",
            "theirs": "sarama",
            "median": 2.0,
            "least": 1.0,
            "most": 4.0,
            "goal": 0.7,
            "reached": True,
        }
    ]
