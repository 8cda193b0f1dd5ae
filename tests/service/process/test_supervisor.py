"""Supervisor with small real programs as workers. Every wait has a deadline."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from sarameya.service.app.app_file import FailurePolicy, ServiceSection
from sarameya.service.monitor.recent_events import RecentEvent
from sarameya.service.monitor.worker_reports import WorkerReport
from sarameya.service.output.error_report import ExitCode
from sarameya.service.process.signals import Stop
from sarameya.service.process.supervisor import Supervisor

# The report of a worker that has reached its event loop. The last argument is the number of the pipe.
REPORTS = 'import os, sys; os.write(int(sys.argv[-1]), b\'{"snapshot": null, "failure": "", "happenings": []}\\n\'); '
DRAINS = "sys.stdin.read(); os.write(1, b'drained\\n')"  # one write, since two workers share the pipe
PATIENT = REPORTS + DRAINS


def worker(directory: Path, name: str, then: str) -> list[str]:
    """Return the command of a program that writes its process id into `directory` and then runs `then`."""
    program = f"import os, pathlib; pathlib.Path({str(directory)!r}, f'{name}-{{os.getpid()}}').touch()\n"
    return [sys.executable, "-c", program + then]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.sleep(0.02)


def pids_of(directory: Path, name: str) -> list[int]:
    """Return the process ids of all workers called `name` that have started."""
    return [int(path.name.rpartition("-")[2]) for path in directory.glob(f"{name}-*")]


async def pids(directory: Path, name: str, count: int) -> list[int]:
    """Wait until `count` workers called `name` have started, and return their process ids."""
    await until(lambda: len(pids_of(directory, name)) >= count)
    return pids_of(directory, name)


def policy(on_failure: FailurePolicy = "stop") -> ServiceSection:
    return ServiceSection(on_failure=on_failure, restart_backoff=0.05, restart_backoff_max=0.2)


@asynccontextmanager
async def running(supervisor: Supervisor, stop: Stop) -> AsyncIterator[list[ExitCode]]:
    """Run the supervisor until it ends, within 20 s. The yielded list then has its exit code."""
    codes: list[ExitCode] = []

    async def run() -> None:
        codes.append(await supervisor.run(stop))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield codes


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_stop_lets_every_worker_drain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, name, PATIENT) for name in "ab"], policy())
    async with running(supervisor, stop) as codes:
        await until(lambda: supervisor.reports.has_reported(1) and supervisor.reports.has_reported(2))
        stop.request("test")
    assert codes == [ExitCode.OK]
    assert capfd.readouterr().out == "drained\n" * 2


async def test_worker_without_a_report_is_not_waited_for(tmp_path: Path) -> None:
    stop = Stop()
    importing = worker(tmp_path, "b", "import time; time.sleep(60)")
    supervisor = Supervisor([worker(tmp_path, "a", PATIENT), importing], policy())
    async with running(supervisor, stop) as codes:
        await pids(tmp_path, "b", 1)
        await until(lambda: supervisor.reports.has_reported(1))
        stop.request("test")
    assert codes == [ExitCode.OK]


async def test_worker_killed_by_a_real_time_signal_is_restarted(tmp_path: Path) -> None:
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, "a", PATIENT)], policy("restart"))
    async with running(supervisor, stop) as codes:
        (first,) = await pids(tmp_path, "a", 1)
        os.kill(first, 40)
        await pids(tmp_path, "a", 2)
        stop.request("test")
    assert codes == [ExitCode.OK]


async def test_last_report_of_a_worker_is_read(tmp_path: Path) -> None:
    """A failing worker reports just before it ends, so the supervisor reads the pipe to its end."""
    event = RecentEvent(number=1, at=7.0, kind="CommitFailed", level="warning", text="the disk is full")
    line = WorkerReport(None, "", (event,)).to_json() + "\n"
    last = f"os.write(int(sys.argv[-1]), b'x' * 60000 + b'\\n' + {line.encode()!r})"
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, "a", f"{REPORTS}{last}; sys.exit(1)")], policy())
    async with running(supervisor, stop) as codes:
        pass
    assert codes == [ExitCode.FAILURE]
    assert "the disk is full" in [each.text for each in supervisor.reports.statuses()[0].happenings]


async def test_worker_killed_while_draining_sets_the_exit_code(tmp_path: Path) -> None:
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, "a", f"{REPORTS} import time; time.sleep(60)")], policy())
    async with running(supervisor, stop) as codes:
        await until(lambda: supervisor.reports.has_reported(1))
        stop.request("test")
        [pid] = await pids(tmp_path, "a", 1)
        os.kill(pid, signal.SIGTERM)
    assert codes == [ExitCode.FAILURE]


async def test_workers_get_additional_environment_variables(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "o")
    program = "import os; os.write(1, (os.environ['OURS'] + os.environ['THEIRS']).encode())"
    with trio.fail_after(20):
        await Supervisor([[sys.executable, "-c", program]], policy()).run(Stop(), {"THEIRS": "t"})
    assert capfd.readouterr().out == "ot"
    assert "THEIRS" not in os.environ


async def test_failed_worker_under_policy_stop_stops_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    failing = worker(tmp_path, "b", f"open({str(gate)!r}).read(); raise SystemExit(1)")
    supervisor = Supervisor([worker(tmp_path, "a", PATIENT), failing], policy("stop"))
    async with running(supervisor, Stop()) as codes:
        await pids(tmp_path, "b", 1)
        await until(lambda: supervisor.reports.has_reported(1))
        gate.write_text("")
    assert codes == [ExitCode.FAILURE]
    assert capfd.readouterr().out == "drained\n"


async def test_killed_worker_under_policy_restart_is_restarted(tmp_path: Path) -> None:
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, "a", PATIENT)], policy("restart"))
    async with running(supervisor, stop) as codes:
        (first,) = await pids(tmp_path, "a", 1)
        os.kill(first, signal.SIGKILL)
        await pids(tmp_path, "a", 2)
        stop.request("test")
    assert codes == [ExitCode.OK]


async def test_fault_64_failed_start_of_a_worker_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that lacks memory or descriptors is retried like that of a worker that has ended."""
    stop, refused = Stop(), list[int]()
    start = trio.lowlevel.open_process

    async def open_process(command: list[str], **more: Any) -> trio.Process:
        if pids_of(tmp_path, "b") and not refused:
            refused.append(1)
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return await start(command, **more)

    monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
    commands = [worker(tmp_path, "a", PATIENT), worker(tmp_path, "b", PATIENT)]
    supervisor = Supervisor(commands, policy("restart"))
    async with running(supervisor, stop) as codes:
        (healthy,) = await pids(tmp_path, "a", 1)
        (killed,) = await pids(tmp_path, "b", 1)
        os.kill(killed, signal.SIGKILL)
        await pids(tmp_path, "b", 2)
        assert refused
        assert is_running(healthy)
        stop.request("test")
    assert codes == [ExitCode.OK]


async def test_worker_with_a_wrong_configuration_is_not_restarted(tmp_path: Path) -> None:
    commands = [worker(tmp_path, "a", PATIENT), worker(tmp_path, "b", "raise SystemExit(2)")]
    with trio.fail_after(20):
        assert await Supervisor(commands, policy("restart")).run(Stop()) is ExitCode.CONFIGURATION
    assert len(pids_of(tmp_path, "b")) == 1


async def test_worker_that_exits_with_0_does_not_stop_the_others(tmp_path: Path) -> None:
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, "a", PATIENT), worker(tmp_path, "b", "")], policy("restart"))
    async with running(supervisor, stop) as codes:
        (patient,) = await pids(tmp_path, "a", 1)
        (quick,) = await pids(tmp_path, "b", 1)
        await until(lambda: not is_running(quick))
        assert is_running(patient)
        assert not stop.is_requested
        stop.request("test")
    assert codes == [ExitCode.OK]


async def test_worker_that_fails_while_draining_sets_the_exit_code(tmp_path: Path) -> None:
    stop = Stop()
    supervisor = Supervisor([worker(tmp_path, "a", f"{REPORTS} sys.stdin.read(); raise SystemExit(1)")], policy())
    async with running(supervisor, stop) as codes:
        await until(lambda: supervisor.reports.has_reported(1))
        stop.request("test")
    assert codes == [ExitCode.FAILURE]


async def test_cancelled_supervisor_leaves_no_process_behind(tmp_path: Path) -> None:
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor([worker(tmp_path, "a", "import time; time.sleep(60)")], policy())
            nursery.start_soon(supervisor.run, Stop())
            (pid,) = await pids(tmp_path, "a", 1)
            nursery.cancel_scope.cancel()
    assert not is_running(pid)


SUPERVISE = """
import logging, sys
from sarameya.service.app.app_file import ServiceSection
from sarameya.service.process.signals import run_program
from sarameya.service.process.supervisor import Supervisor
logging.basicConfig(level="INFO")
supervisor = Supervisor([[sys.executable, "-c", sys.argv[1]]], ServiceSection())
raise SystemExit(run_program(supervisor.run, before_exit=supervisor.kill_nowait))
"""
HANGING = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
sys.stdin.read()
print("stop requested", flush=True)
time.sleep(60)
"""


def test_second_signal_kills_workers_that_do_not_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, HANGING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            started = re.search(r"worker 1 started \(pid (\d+)\)", process.stderr.readline())
            assert started
            assert process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == "stop requested\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 143
            assert process.stdout.read() == ""  # returns only once the worker has ended, too
        finally:
            process.kill()


def test_killed_supervisor_lets_its_workers_drain() -> None:
    command = [sys.executable, "-c", SUPERVISE, f"{REPORTS} print('up', flush=True); {DRAINS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "up\n"
        finally:
            process.kill()
        assert process.stdout.read() == "drained\n"
