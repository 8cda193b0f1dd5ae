"""Notifications to a service manager, through a real datagram socket, in virtual time."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from sarameya.meters import Meters
from sarameya.model import TopicPartition
from sarameya.protocol.membership.states import State
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.process.signals import Stop
from sarameya.service.process.systemd import EXTENSION, Notifier
from sarameya.status import Activity, GroupStatus, PartitionStatus
from sarameya.telemetry.snapshot import MemberSnapshot

MORE_TIME = {"EXTEND_TIMEOUT_USEC": str(round(EXTENSION * 1e6))}


class Manager:
    """Fake systemd with its socket."""

    def __init__(self, address: str) -> None:
        self.environ = {"NOTIFY_SOCKET": address}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(address.replace("@", "\0"))

    def received(self) -> list[dict[str, str]]:
        """Return the notifications since the last call."""
        found = []
        with suppress(BlockingIOError):
            while True:
                lines = self.socket.recv(65536).decode().split("\n")
                found.append(dict(line.split("=", 1) for line in lines))
        return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(f"@sarameya-{os.getpid()}-{id(request)}" if request.param == "abstract" else str(tmp_path / "s"))
    with manager.socket:
        yield manager


@attrs.define
class FakeMembers:
    """Members with these group statuses, in the order of workers."""

    groups: list[GroupStatus | None]

    def statuses(self) -> list[WorkerStatus]:
        return [
            WorkerStatus(worker=worker, snapshot=None if status is None else MemberSnapshot(worker, status, Meters()))
            for worker, status in enumerate(self.groups, start=1)
        ]


def status(state: State, generation: int = -1, partitions: int = 0) -> GroupStatus:
    rows = (
        PartitionStatus(partition=TopicPartition("orders", n), activity=Activity.FETCHING) for n in range(partitions)
    )
    return GroupStatus(group="g", state=state.name, generation=generation, partitions=tuple(rows))


JOINING = status(State.PREPARING_REBALANCE)


async def test_start_assignments_and_stop_are_notified(
    manager: Manager, autojump_clock: trio.testing.MockClock
) -> None:
    stop, members = Stop(), FakeMembers([None, None])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Notifier(manager.environ).run, stop, members)
        await trio.sleep(2.5)
        assert manager.received() == [{"STATUS": "starting", **MORE_TIME}, MORE_TIME, MORE_TIME]
        members.groups = [status(State.STABLE, 1, 4), JOINING]
        await trio.sleep(1)
        assert manager.received() == [{"STATUS": "group g, generation 1: 1 of 2 members, 4 partitions", **MORE_TIME}]
        members.groups = [JOINING, status(State.STABLE, 2)]  # the other one has joined before
        await trio.sleep(1)
        assert manager.received() == [{"STATUS": "group g, generation 2: 1 of 2 members, 0 partitions", "READY": "1"}]
        await trio.sleep(60)
        assert manager.received() == []
        members.groups = [JOINING, JOINING]
        await trio.sleep(1)
        assert manager.received() == [{"STATUS": "group g: 0 of 2 members, 0 partitions"}]
        stop.request("SIGTERM\nREADY=0")
        await trio.testing.wait_all_tasks_blocked()
        assert manager.received() == [{"STOPPING": "1", "STATUS": "stopping: SIGTERM READY=0"}, MORE_TIME]
        await trio.sleep(2.5)
        assert manager.received() == [MORE_TIME, MORE_TIME]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("pid", [None, "own"])
async def test_watchdog_is_notified_twice_per_timeout(
    manager: Manager, autojump_clock: trio.testing.MockClock, pid: str | None
) -> None:
    notifier = Notifier(
        manager.environ | {"WATCHDOG_USEC": "1000000"} | ({"WATCHDOG_PID": str(os.getpid())} if pid else {})
    )
    beats = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run, Stop(), FakeMembers([status(State.STABLE, 1)]))
        for _ in range(5):
            await trio.sleep(1.99)
            beats += sum("WATCHDOG" in notification for notification in manager.received())
        nursery.cancel_scope.cancel()
    assert beats == 20


async def test_watchdog_of_another_process_is_not_notified(
    manager: Manager, autojump_clock: trio.testing.MockClock
) -> None:
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"})
    with trio.move_on_after(39):
        await notifier.run(Stop(), FakeMembers([None]))
    assert not any("WATCHDOG" in notification for notification in manager.received())


async def test_notifications_resume_after_a_full_socket(
    manager: Manager, autojump_clock: trio.testing.MockClock
) -> None:
    members = FakeMembers([None])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Notifier(manager.environ).run, Stop(), members)
        await trio.sleep(1_000.5)
        members.groups = [status(State.STABLE, 1)]
        await trio.sleep(1)
        assert not any("READY" in notification for notification in manager.received())
        await trio.sleep(1)
        assert [notification["READY"] for notification in manager.received()] == ["1"]
        nursery.cancel_scope.cancel()


async def test_no_notification_without_a_listener_or_to_children(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    members = FakeMembers([None])
    await Notifier({}).run(Stop(), members)
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    notifier = Notifier()
    assert {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}.isdisjoint(os.environ)
    with trio.move_on_after(10):
        await notifier.run(Stop(), members)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "the service manager cannot be notified: [Errno 2] No such file or directory"
    ]
