"""Log lines about stalled work: one when it starts, one when it is over."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, Message, Session, TopicPartition
from sarameya.service.monitor.health import SILENT_AFTER, HealthProblem
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.monitor.worker_reports import WorkerReports
from sarameya.service.output.log_format import RESERVED
from sarameya.service.process.problem_log import CALM, INTERVAL, MAX_LINES, ProblemChange, ProblemLog, watch_problems
from sarameya.service.process.signals import Stop
from sarameya.status import Activity
from tests.group.kit import Recorder, deadline, orders, start_member
from tests.service.monitor.kit import ORDERS_0, partition, worker_status

STALL = 60.0
HUNG = HealthProblem(
    "not ready", 1, "orders-0: no progress", "orders-0: no progress for 61 s: in handler for 61 s", ORDERS_0
)
JOINING = HealthProblem("not ready", 1, "no member of g", "no member of g: preparing rebalance for 5 s", is_usual=True)


def logged(
    problem_log: ProblemLog, *found: HealthProblem, until: float, since: float = 0.0
) -> list[tuple[float, bool]]:
    """Return the times of log lines for problems from `since` to `until`, and whether each says "resolved"."""
    times = range(int(since), int(until) + 1, int(INTERVAL))
    return [(now, change.is_over) for now in times for change in problem_log.update(found, now)]


def test_problem_is_logged_once_and_its_end_after_a_while() -> None:
    problem_log = ProblemLog(STALL)
    assert problem_log.update([HUNG], 100.0) == [ProblemChange(HUNG, False, 0.0)]
    later = attrs.evolve(HUNG, line="orders-0: no progress for 900 s: backpressured for 5 s")
    assert logged(problem_log, later, since=105, until=900) == []
    assert logged(problem_log, since=905, until=900 + CALM - 1) == []
    assert problem_log.update([], 900 + CALM) == [ProblemChange(later, True, 800.0)]
    assert logged(problem_log, since=1000, until=2000) == []
    assert problem_log.update([HUNG], 2000) == [ProblemChange(HUNG, False, 0.0)]


def test_intermittent_problem_is_logged_once() -> None:
    problem_log = ProblemLog(STALL)
    lines = [change for now in range(0, 1000, 10) for change in problem_log.update([HUNG] if now % 20 else [], now)]
    assert [change.is_over for change in lines] == [False]


def test_usual_problem_of_a_start_is_logged_if_it_lasts() -> None:
    problem_log = ProblemLog(STALL)
    assert logged(problem_log, JOINING, until=STALL - 1) == []
    assert logged(problem_log, since=STALL, until=1000) == [], "a problem that was not logged has no logged end"
    assert logged(ProblemLog(STALL), JOINING, until=1000) == [(STALL, False)]


def test_same_problem_of_two_workers_is_logged_twice() -> None:
    changes = ProblemLog(STALL).update([HUNG, attrs.evolve(HUNG, worker=2)], 0.0)
    assert [one.problem.worker for one in changes] == [1, 2]


@attrs.define
class FakeMembers:
    """Members with the given statuses."""

    members: Sequence[WorkerStatus] = ()

    def statuses(self) -> Sequence[WorkerStatus]:
        return self.members


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if hasattr(record, "fields")]


async def test_hanging_handler_is_logged_and_its_recovery(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = trio.Event()

    async def hang(session: Session, claim: Claim, message: Message) -> None:
        if message.value == b"hang":
            await hangs.wait()

    caplog.set_level(logging.INFO, "sarameya")
    local_members, stop = LocalMembers([1]), Stop()
    async with orders(2) as cluster, deadline(2000) as nursery:
        handler = Recorder(hang)
        member = await start_member(nursery, cluster, handler)
        local_members.set_group(1, member.group)
        nursery.start_soon(watch_problems, local_members, stop, STALL)
        cluster.produce("orders", 1, b"hang")
        await trio.sleep(STALL)
        assert handler.messages
        assert lines(caplog) == []
        await trio.sleep(1000)
        (line,) = lines(caplog)
        assert line[0] == "WARNING"
        assert line[1].startswith("not ready: orders-1: no progress for 6")
        caplog.clear()
        hangs.set()
        await trio.sleep(CALM + 2 * INTERVAL)
        ((level, text),) = lines(caplog)
        assert (level, text.partition(" s: ")[2]) == ("INFO", "orders-1: no progress")
        (fields,) = [record.fields for record in caplog.records if hasattr(record, "fields")]
        assert 900 < fields.pop("seconds") < 1010
        assert fields == {"worker": 1, "reason": "orders-1: no progress", "partition": TopicPartition("orders", 1)}
        assert not fields.keys() & (RESERVED - {"worker"})
        stop.request("test")
        await member.close()


async def test_silent_worker_is_logged_without_its_old_problems(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    reports, stop = WorkerReports([1, 2]), Stop()
    async with deadline() as nursery:
        reports.record_start(1, 4711)
        nursery.start_soon(watch_problems, reports, stop, STALL)
        for _ in range(200):
            await trio.sleep(1)
            reports._workers[2].at = trio.current_time()
        stop.request("test")
    assert lines(caplog) == [("WARNING", "not alive: worker 1 has not reported for 65 s")]
    caplog.clear()
    stop, members = (
        Stop(),
        FakeMembers([worker_status(partition(Activity.IN_HANDLER), age=SILENT_AFTER + 1), worker_status(worker=2)]),
    )
    async with deadline() as nursery:
        nursery.start_soon(watch_problems, members, stop, STALL)
        await trio.sleep(STALL + 2 * INTERVAL)
        stop.request("test")
    assert lines(caplog) == [("WARNING", "not ready: worker 1: it has not reported for 11 s")]


async def test_many_problems_at_once_are_a_few_lines(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [partition(Activity.IN_HANDLER, of=TopicPartition("orders", number)) for number in range(100)]
    members, stop = FakeMembers([worker_status(*rows)]), Stop()
    async with deadline() as nursery:
        nursery.start_soon(watch_problems, members, stop, STALL)
        await trio.sleep(STALL + 2 * INTERVAL)
        stop.request("test")
    assert len(lines(caplog)) == MAX_LINES
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings[MAX_LINES:] == ["and 90 more like these; /readyz has them all"]


async def test_failing_check_of_the_health_is_logged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def statuses(self) -> Sequence[WorkerStatus]:
            raise KeyError("x")

    stop = Stop()
    async with deadline() as nursery:
        nursery.start_soon(watch_problems, Broken(), stop, STALL)
        await trio.sleep(100)
        assert caplog.messages == ["the health of the service cannot be checked"]
        stop.request("test")


async def test_orderly_start_and_stop_are_no_problem(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    local_members, stop = LocalMembers([1]), Stop()
    async with orders(1) as cluster, deadline() as nursery:
        nursery.start_soon(watch_problems, local_members, stop, STALL)
        await trio.sleep(INTERVAL)
        member = await start_member(nursery, cluster, Recorder())
        local_members.set_group(1, member.group)
        await trio.sleep(100)
        stop.request("test")
        await member.close()
    assert lines(caplog) == []
