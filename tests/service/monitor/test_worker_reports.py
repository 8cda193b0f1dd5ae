"""Reports of a worker to its supervisor through a pipe. Either process may end."""

from __future__ import annotations

import json
import os

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sarameya import ConsumerGroup
from sarameya.observe import Retrying
from sarameya.service.monitor import worker_reports
from sarameya.service.monitor.health import health
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.monitor.members import Restart
from sarameya.service.monitor.progress_tracker import ProgressTracker
from sarameya.service.monitor.recent_events import KEPT, EventRecorder, RecentEvent
from sarameya.service.monitor.worker_reports import WorkerReport, WorkerReports, send_reports
from sarameya.status import OverdueHandler
from sarameya.telemetry.snapshot import MemberSnapshot
from tests.group.kit import Recorder, deadline, fill, orders, start_member
from tests.service.monitor.kit import ORDERS_0, partition, worker_status
from tests.service.monitor.test_recent_events import landed


@pytest.fixture
def pipe() -> tuple[int, int]:
    """Return the two ends of a pipe. Their users close them."""
    return os.pipe()


def test_report_with_an_overdue_handler_survives_json() -> None:
    overdue = OverdueHandler(partition=ORDERS_0, offset=3, last_offset=9, seconds=66.0, stack="f\n  line\n")
    happening = RecentEvent(number=1, at=7.0, kind="HandlerOverdue", level="warning", text="held", stack="f\n")
    line = WorkerReport(worker_status(partition(overdue=overdue)).snapshot, "", (happening,))
    assert WorkerReport.from_json(line.to_json()) == line


def group() -> ConsumerGroup:
    return ConsumerGroup(["localhost:1"], "g")


async def test_report_of_an_active_member_survives_json(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        recent = EventRecorder(lambda: 1700000000.25)
        await handler.received(10)
        await trio.sleep(5)
        for event in member.events:
            recent(event)
        try:
            raise ExceptionGroup("two", [ValueError("a\nb"), RuntimeError("<c>")]) from OSError("d")
        except ExceptionGroup as error:
            recent.record_failure(error)
        line = WorkerReport(MemberSnapshot.of(member.group, 2), "ValueError: ü", tuple(recent))
        assert line.snapshot is not None
        assert line.snapshot.status.partitions
        assert line.snapshot.meters.requests["Fetch"].count > 0
        assert line.happenings[-1].tree is not None
        text = line.to_json()
        assert "\n" not in text
        assert WorkerReport.from_json(text) == line
        assert WorkerReport.from_json(WorkerReport(None, "", ()).to_json()) == WorkerReport(None, "", ())
        await member.close()


async def test_supervisor_gets_a_report_each_second_and_each_event_once(
    autojump_clock: MockClock, pipe: tuple[int, int]
) -> None:
    local_members, reports = LocalMembers([2]), WorkerReports([1, 2])
    local_members.set_group(2, group())
    async with deadline() as nursery:
        reports.record_start(2, 4711)
        nursery.start_soon(reports.listen, 2, pipe[0])
        nursery.start_soon(send_reports, local_members, pipe[1])
        assert [(one.snapshot, one.age, one.pid) for one in reports.statuses()] == [(None, 0.0, 0), (None, 0.0, 4711)]
        await trio.sleep(0.5)
        local_members.recorder(2).record_failure(ValueError("no"))
        await trio.sleep(3.0)
        first, second = reports.statuses()
        assert first.snapshot is None
        assert second.snapshot is not None
        assert (second.snapshot.worker, second.snapshot.status.group) == (2, "g")
        assert second.age == pytest.approx(0.5)
        assert [one.text for one in second.happenings] == ["ValueError: no"]


async def test_dead_worker_is_not_silent_and_loses_its_status(autojump_clock: MockClock, pipe: tuple[int, int]) -> None:
    reports = WorkerReports([1])
    async with deadline() as nursery:
        reports.record_start(1, 4711)
        nursery.start_soon(reports.listen, 1, pipe[0])
        snapshot = worker_status(partition()).snapshot
        async with trio.lowlevel.FdStream(pipe[1]) as stream:
            line = WorkerReport(snapshot, "", ()).to_json().encode()
            await stream.send_all(line + b"\n" + line[:10])  # ends within a line
            await wait_all_tasks_blocked()
        await trio.sleep(0.1)
        assert reports.statuses()[0].snapshot == snapshot
        reports.record_failure(1, "was killed by SIGKILL")
        await trio.sleep(500)
        (found,) = reports.statuses()
        assert (found.snapshot, found.age, found.failure) == (None, 0.0, "was killed by SIGKILL")
        found_health = health([found], ProgressTracker(), trio.current_time(), stall_after=60.0)
        assert (found_health.not_ready, found_health.not_alive) == (("was killed by SIGKILL",), ())
        reports.record_start(1, 4712)
        assert (reports.statuses()[0].failure, reports.statuses()[0].pid) == ("", 4712)


async def test_age_of_a_worker_without_report_is_valid_json(autojump_clock: MockClock) -> None:
    """The age is a finite number even before the process has started: JSON has no infinity."""
    (found,) = WorkerReports([1]).statuses()
    assert json.loads(json.dumps(found.age, allow_nan=False)) == 0.0


async def test_end_of_the_supervisor_ends_only_the_reports(autojump_clock: MockClock, pipe: tuple[int, int]) -> None:
    local_members = LocalMembers([1])
    local_members.set_group(1, group())
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_reports, local_members, pipe[1])
            await trio.sleep(2.5)
            os.close(pipe[0])


async def test_processes_of_handlers_do_not_inherit_the_pipe(autojump_clock: MockClock, pipe: tuple[int, int]) -> None:
    os.set_inheritable(pipe[1], True)
    async with deadline() as nursery:
        nursery.start_soon(send_reports, LocalMembers([1]), pipe[1])
        await trio.sleep(worker_reports.INTERVAL)
        assert not os.get_inheritable(pipe[1])
        nursery.cancel_scope.cancel()
    os.close(pipe[0])


async def test_batches_displace_no_event_of_the_reports(autojump_clock: MockClock, pipe: tuple[int, int]) -> None:
    local_members, reports = LocalMembers([1]), WorkerReports([1])
    local_members.set_group(1, group())
    local_members.recorder(1).record_failure(ValueError("no"))
    async with deadline() as nursery:
        reports.record_start(1, 7)
        nursery.start_soon(reports.listen, 1, pipe[0])
        nursery.start_soon(send_reports, local_members, pipe[1])
        for offset in range(5 * KEPT):
            local_members.recorder(1)(landed(offset))
            if offset % (KEPT // 2) == 0:
                await trio.sleep(worker_reports.INTERVAL)
        await trio.sleep(2 * worker_reports.INTERVAL)
        happenings = reports.statuses()[0].happenings
    assert [one.text for one in happenings if one.landing is None] == ["ValueError: no"]
    offsets = [one.landing.from_offset for one in happenings if one.landing is not None]
    assert offsets == [*range(4 * KEPT, 5 * KEPT)]


async def test_attempts_reported_one_by_one_are_one_event(autojump_clock: MockClock, pipe: tuple[int, int]) -> None:
    local_members, reports = LocalMembers([1]), WorkerReports([1])
    local_members.set_group(1, group())
    async with deadline() as nursery:
        reports.record_start(1, 7)
        nursery.start_soon(reports.listen, 1, pipe[0])
        nursery.start_soon(send_reports, local_members, pipe[1])
        await trio.sleep(worker_reports.INTERVAL / 2)  # between two reports, never at the time of one
        for attempt in range(1, 9):
            local_members.recorder(1)(Retrying("metadata", attempt, 1.0, 2.0, "no broker is there", kind="metadata"))
            await trio.sleep(worker_reports.INTERVAL)
        (event,) = reports.statuses()[0].happenings
        assert "attempt=8 " in event.text


async def test_killed_worker_is_an_event_and_has_a_restart(autojump_clock: MockClock) -> None:
    reports = WorkerReports([1, 2], lambda: 1700000000.5)
    reports.record_start(1, 4711)
    reports.record_failure(1, "was killed by SIGKILL")
    reports.record_restart(1, 5.0, 2)
    await trio.sleep(1.5)
    found, other = reports.statuses()
    (event,) = found.happenings
    assert (event.at, event.kind, event.level, event.text, event.tree) == (
        1700000000.5, "Failure", "error", "worker 1 was killed by SIGKILL", None
    )  # fmt: skip
    assert (found.restart, other.restart, other.happenings) == (Restart(3.5, 2), None, ())
    reports.record_start(1, 4712)
    found, _ = reports.statuses()
    assert (found.restart, found.happenings) == (None, (event,))


async def test_failure_of_a_member_is_reported_until_the_next_starts(autojump_clock: MockClock) -> None:
    local_members = LocalMembers([1])
    local_members.set_group(1, group())
    local_members.record_failure(
        1, ExceptionGroup("nursery", [ExceptionGroup("nursery", [ValueError("cannot\nat all")])])
    )
    (found,) = local_members.statuses()
    assert found.failure == "ValueError: cannot"
    local_members.record_failure(1, ExceptionGroup("two", [ExceptionGroup("one", [ValueError("no")]), OSError("disk")]))
    local_members.record_restart(1, 3.0, 2)
    await trio.sleep(1)
    assert (local_members.statuses()[0].failure, local_members.statuses()[0].restart) == (
        "ValueError: no (and 1 more)",
        Restart(2.0, 2),
    )
    local_members.set_group(1, group())
    assert (local_members.statuses()[0].failure, local_members.statuses()[0].restart) == ("", None)
    assert attrs.asdict(local_members.statuses()[0].happenings[0])["kind"] == "Failure"


async def test_line_of_another_version_is_ignored_and_logged_once(
    autojump_clock: MockClock, pipe: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    receiver, sender = pipe
    reports = WorkerReports([1])
    reports.record_start(1, 7)
    os.write(sender, b'{"what": "else"}\n[1]\n\xff\n' + WorkerReport(None, "failed", ()).to_json().encode() + b"\n")
    os.close(sender)
    await reports.listen(1, receiver)
    assert reports.statuses()[0].failure == "failed"
    (record,) = caplog.records
    assert record.getMessage().startswith("a report of worker 1 cannot be read: ")
