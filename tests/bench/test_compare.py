"""Comparison of two commits: order of the rounds, ratios, command lines."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

import bench.__main__ as command
from bench.common.machine import Machine
from bench.common.results import Result
from bench.common.spread import Spread
from bench.common.tables import Column, Document, Row, Table
from bench.compare import CommitError, add_options, arguments_of, compared, measure, run_bench, take_out
from tests.integration.peers.running import ROOT

COLUMNS = (Column("rate", "1/s"),)


def document(rate: float | None) -> Document:
    ours, theirs = Result("sarameya-marked", is_ours=True), Result("sarama")
    ours.add("exited with 1" if rate is None else {"rate": rate})
    theirs.add({"rate": 7.0})
    rows = [Row.of(result, COLUMNS) for result in (ours, theirs)]
    return Document("consume", "about", Machine.here(), 1.0, [Table("small", COLUMNS, rows)])


def test_commits_run_in_alternating_order() -> None:
    runs: list[tuple[str, str]] = []

    def run(commit: str, bench: str) -> Document:
        runs.append((commit, bench))
        return document(1.0)

    list(measure(("A", "B"), ["consume", "latency"], 2, run))
    order = ["A", "B", "B", "A"]
    assert runs == [(commit, bench) for bench in ("consume", "latency") for commit in order]


def test_ratio_is_second_commit_to_first_in_each_round() -> None:
    documents = {"A": [document(10.0), document(20.0)], "B": [document(20.0), document(20.0)]}
    [table] = compared(documents, ("A", "B"))

    assert [(row.name, row.figures["rate"]) for row in table.rows] == [
        ("sarameya-marked A", Spread(15.0, 10.0, 20.0)),
        ("sarameya-marked B", Spread(20.0, 20.0, 20.0)),
    ]
    [ratio] = table.ratios
    assert (ratio.ours, ratio.theirs) == ("sarameya-marked B", "sarameya-marked A")
    assert ratio.spread == Spread(20 / 15, 1.0, 2.0)


def test_commit_with_a_failed_round_has_no_ratio() -> None:
    [table] = compared({"A": [document(10.0)], "B": [document(None)]}, ("A", "B"))

    assert table.has_failures
    assert table.ratios == []


@pytest.mark.parametrize("name", command.BENCHES)
def test_each_bench_accepts_the_command_line_of_a_round(name: str) -> None:
    modules = command.load_benches()
    arguments = arguments_of(name, modules[name], quick=True)

    options = command.argument_parser(modules).parse_args(arguments)
    assert options.bench == name
    assert all(contender.startswith("sarameya") for contender in getattr(options, "contenders", []))


def test_bench_without_contenders_has_no_such_option() -> None:
    module = ModuleType("plain")
    module.add_options = lambda parser: None  # type: ignore[attr-defined]
    assert arguments_of("plain", module, quick=False) == ["plain", "--repeats", "1"]


def test_unknown_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommitError, match="no-such-commit"):
        take_out("no-such-commit", tmp_path)


@pytest.mark.integration
def test_product_of_the_commit_runs(tmp_path: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    take_out(head.stdout.strip(), tmp_path)
    with pytest.raises(CommitError, match="consume ended with 2 without a result"):
        run_bench("consume", ["consume", "--no-such-option"], tmp_path)


@pytest.mark.integration
def test_other_product_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommitError, match="would run with"):
        run_bench("consume", ["consume"], tmp_path)


def test_two_commits_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, ["consume"])
    with pytest.raises(SystemExit):
        parser.parse_args(["A"])
    assert "A" in capsys.readouterr().err
