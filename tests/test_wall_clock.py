"""The wall clock may jump: it provides dates, and no timer depends on it."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Committed, ConnectionLost, MembershipChanged, Retrying, SessionEnding, SessionStarted
from tests.group.kit import Recorder, committed, deadline, start_member

ROOT = Path(__file__).parents[1]

WALL_CLOCK = {
    # Dates records.
    "runtime/sarameya/embedded/cluster.py": {"time.time"},
    "runtime/sarameya/asyncio/producer.py": {"time.time"},
    "runtime/sarameya/producer/producer.py": {"time.time"},
    "runtime/sarameya/service/letters/log_reader.py": {"time.time"},
    # Offsets by time, such as `a day ago`.
    "runtime/sarameya/group/consumer_group.py": {"time.time"},
    "runtime/sarameya/group/standalone.py": {"time.time"},
    "runtime/sarameya/asyncio/consumer.py": {"time.time"},
    "runtime/sarameya/asyncio/consumer_group.py": {"time.time"},
    "runtime/sarameya/service/groups/command.py": {"time.time"},
    "runtime/sarameya/service/letters/command.py": {"time.time"},
    # Dates events, points of a plot, metrics.
    "runtime/sarameya/service/dashboard/group_board.py": {"time.time"},
    "runtime/sarameya/service/web/status_board.py": {"time.time"},
    "runtime/sarameya/service/monitor/recent_events.py": {"time.time"},
    "runtime/sarameya/service/monitor/worker_reports.py": {"time.time"},
    "runtime/sarameya/telemetry/otel_metrics.py": {"time.time"},
    # Dates links, Delta's commits and dead letters.
    "handlers/sarameya_handlers/spark/sink/flush_scheduler.py": {"time.time_ns"},
    "handlers/sarameya_handlers/spark/delta/creation.py": {"time.time_ns"},
    "handlers/sarameya_handlers/spark/delta/direct_commits.py": {"time.time_ns"},
    "handlers/sarameya_handlers/landing/dead_letters/files.py": {"time.time"},
    # Expiry of credentials.
    "handlers/sarameya_handlers/landing/stores/clients.py": {"datetime.now"},
    # Ages of leftover files and links, whose dates are from the wall clock.
    "handlers/sarameya_handlers/spark/sink/sink_table.py": {"time.time"},
    "handlers/sarameya_handlers/spark/engines/jvm/scratch.py": {"time.time"},
    "handlers/sarameya_handlers/spark/iceberg/leftovers.py": {"time.time"},
    "handlers/sarameya_handlers/audit/__init__.py": {"time.time"},
    "handlers/sarameya_handlers/audit/commands/sweep_command.py": {"time.time"},
    "handlers/sarameya_handlers/audit/commands/verify_command.py": {"time.time"},
}
"""Files that may use the wall clock, with the functions and the purpose."""

_CLOCK_FUNCTIONS = {
    *(
        f"time.{name}"
        for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime", "clock_gettime")
    ),
    *(f"datetime.{name}" for name in ("now", "utcnow", "today")),
    "date.today",
}


def clock_functions_in(path: Path) -> set[str]:
    """Return the functions of the wall clock that a file names."""
    return set(_named(ast.parse(path.read_text(encoding="utf-8")))) & _CLOCK_FUNCTIONS


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            yield f"{of}.{node.attr}"
        elif isinstance(node, ast.Import):
            # Under another name its use would not be found.
            yield from (f"{alias.name}.time" for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_wall_clock_is_used_only_in_the_listed_files() -> None:
    files = [path for room in ("runtime", "handlers") for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 100
    found = {str(path.relative_to(ROOT)): names for path in files if (names := clock_functions_in(path))}
    assert found == WALL_CLOCK


@pytest.mark.parametrize(
    "line",
    [
        "time.time()",
        "import time as t",
        "from time import time",
        "datetime.datetime.now()",
        "datetime.now(UTC)",
        "x = time.time_ns",
    ],
)
def test_each_form_of_a_wall_clock_call_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.py").write_text(line)
    assert clock_functions_in(tmp_path / "a.py")


_DISTURBANCES = (SessionStarted, SessionEnding, ConnectionLost, Retrying, MembershipChanged)


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 10 * 365 * 86_400.0])
async def test_jumping_wall_clock_ends_no_session(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    jumped = 0.0
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + trio.current_time() + jumped)
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
    async with (
        EmbeddedCluster({"orders": 2}, in_memory=True, seed=1, wall_clock=lambda: time.time()) as cluster,
        deadline() as nursery,
    ):
        handlers = [Recorder(), Recorder()]
        members = [await start_member(nursery, cluster, handler) for handler in handlers]
        await trio.sleep(30)
        before = [[type(event) for event in member.events if type(event) in _DISTURBANCES] for member in members]
        for second in range(120):
            jumped = jump * (second > 30) * (second < 90)
            for partition in range(2):
                cluster.produce("orders", partition, b"%d" % second)
            await trio.sleep(1)
            read = sum(len(handler.messages) for handler in handlers)
            assert read == 2 * (second + 1), "a message was not read within a second"
        assert before == [
            [type(event) for event in member.events if type(event) in _DISTURBANCES] for member in members
        ]
        assert all(len(member.seen(Committed)) > 100 for member in members), "fewer than one commit a second"
        stamps = [message.timestamp for message in handlers[0].messages]
        assert max(stamps) - min(stamps) > abs(jump) * 1000 - 200_000, "records do not have dates of the wall clock"
        await trio.sleep(2)
        assert committed(cluster) == {"orders-0": 120, "orders-1": 120}
