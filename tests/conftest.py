"""Rules for all tests: SIGTERM ends a run with all fixtures; no integration test may be skipped where CI=true."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings

from tests.conformance import results
from tests.exclusive_lock import turn
from tests.integration.class_data import quick_spark

# No deadline, since a busy machine makes examples slow. Only `make soak` tries new examples in each run.
settings.register_profile("sarameya", deadline=None, derandomize="SARAMEYA_SOAK" not in os.environ, print_blob=True)
settings.load_profile("sarameya")

os.environ.update(quick_spark())  # members that tests start inherit it

_IN_CI = os.environ.get("CI") == "true"
_TURNS = Path(__file__).parents[1] / "build" / "turns"
_LEFT_OUT = "exhaustive tests left out"
_LEFT_OUT_OF_RUN = pytest.StashKey[int]()
_INTEGRATION = Path(__file__).with_name("integration")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Handle SIGTERM like Ctrl-C, so that fixtures stop the programs that they started."""

    def stop(_: int, frame: FrameType | None) -> None:
        session.shouldstop = "SIGTERM"  # needed if a test catches the interrupt as its own failure
        handler = signal.getsignal(signal.SIGINT)  # trio's handler while trio runs; SIG_IGN in a shell's background job
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, stop)
    if not hasattr(session.config, "workerinput"):
        results.begin()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist, run the files with integration tests first, so that no long file is left for the end.

    Among these, tests that measure time ("alone") come last, so that they need not wait for a long test of another
    process. Tests of one file stay together, since they share the programs that they started.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or worker["workerid"] == "gw0":
        results.expect(items)
    if worker is not None:
        long, alone = (
            {item.path for item in items if item.get_closest_marker(mark)} for mark in ("integration", "alone")
        )
        items.sort(key=lambda item: (item.path not in long, item.path in alone))


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        output = getattr(item.config, "workeroutput", None)
        if output is not None and item.get_closest_marker("exhaustive"):
            output[_LEFT_OUT] = output.get(_LEFT_OUT, 0) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the count of one pytest-xdist process. All of them collect the same tests."""
    node.config.stash[_LEFT_OUT_OF_RUN] = getattr(node, "workeroutput", {}).get(_LEFT_OUT, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left_out := config.stash.get(_LEFT_OUT_OF_RUN, 0):
        terminalreporter.write_line(f"{left_out} exhaustive tests were left out: `make conformance` runs all tests.")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cold") or not item.get_closest_marker("integration"):
        _end_warm_spark()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    _end_warm_spark()
    if not hasattr(session.config, "workerinput"):
        results.end(int(exitstatus))


def _end_warm_spark() -> None:
    # No import here: a run of unit tests must not load Spark.
    if warm := sys.modules.get("tests.integration.warm_spark"):
        warm.end_warm_spark()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test that measures time while no other process runs a test."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    with turn(_TURNS, alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("integration"):
        _refuse_skip(report)
    results.record(item, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if _INTEGRATION in collector.path.parents:
        _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"an integration test may not be skipped where CI=true. {reason}"


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Restore the level of the root logger, which commands change when a test runs them in this process."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
