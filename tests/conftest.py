"""Rules for every test: SIGTERM ends a run in order; an integration test may not be skipped where CI=true."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

from tests.integration.class_data import quick_spark
from tests.turns import turn

# A busy machine makes an example slow, not wrong. The ordinary run is the same each time; `make soak` looks further.
settings.register_profile("sarameya", deadline=None, derandomize="SARAMEYA_SOAK" not in os.environ, print_blob=True)
settings.load_profile("sarameya")

os.environ.update(quick_spark())  # also of the members that tests start

_IN_CI = os.environ.get("CI") == "true"
_TURNS = Path(__file__).parents[1] / "build" / "turns"
_INTEGRATION = Path(__file__).with_name("integration")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Handle SIGTERM like Ctrl-C, so that fixtures end the programs that they have started."""

    def stop(_: int, frame: FrameType | None) -> None:
        session.shouldstop = "SIGTERM"  # for a test that takes the interrupt for its own failure
        handler = signal.getsignal(signal.SIGINT)  # trio's own while it runs; ignored in a shell's background job
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, stop)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist, run the longest files first, so that the end of the run waits for none.

    The last of these are tests that measure time, so that they wait for no long test of another process. Tests of one
    file stay together, since they share the programs that they have started.
    """
    if hasattr(config, "workerinput"):
        long, alone = (
            {item.path for item in items if item.get_closest_marker(mark)} for mark in ("integration", "alone")
        )
        items.sort(key=lambda item: (item.path not in long, item.path in alone))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cold") or not item.get_closest_marker("integration"):
        _end_warm_spark()


def pytest_sessionfinish() -> None:
    _end_warm_spark()


def _end_warm_spark() -> None:
    # Not imported here: who runs unit tests does not load Spark for it.
    if warm := sys.modules.get("tests.integration.warm_spark"):
        warm.end_warm_spark()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Beside a test that measures time no other process runs one."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    with turn(_TURNS, alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("integration"):
        _refuse_skip(report)
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
    """Commands that a test runs in this process set the root logger's level; the next test has the usual one."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
