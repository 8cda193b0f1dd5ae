"""Handlers with `processes`: their calls run in other processes, which can be killed. Most tests run in real time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sarameya import Config, ConfigError, DeadLetterTopic, HandlerError, Message, MessageHandler
from sarameya.handling.calls import Calls
from sarameya.handling.processes import WorkerProcesses
from sarameya.model import TimestampType
from sarameya.observe import Retrying
from sarameya.testing import ClaimFeed
from tests.handling.process_kit import CannotBeLoaded, EndsWithAnError, Fails, Slow, Wrapped, Writes


def feed_of(*values: bytes, config: Config | None = None) -> ClaimFeed:
    feed = ClaimFeed("orders", config=config)
    for value in values:
        feed.send(value)
    return feed


def pid_of(path: Path) -> int:
    """Return the id of the process that wrote a file, or 0 without a file."""
    return int(path.read_text() or "0") if path.exists() else 0


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def causes(feed: ClaimFeed) -> set[str]:
    return {event.cause.partition(":")[0] for event in feed.events if isinstance(event, Retrying)}


async def test_messages_are_handled_in_processes(tmp_path: Path) -> None:
    handler, feed = Writes(tmp_path), feed_of(*[b""] * 6)
    feed.end()
    await feed.run(handler)
    assert feed.committed == 6
    assert handler.count == 0, "handled in the member itself"
    written = [pid_of(tmp_path / str(offset)) for offset in range(6)]
    assert os.getpid() not in written
    assert 1 <= len({*written}) <= 2
    assert all(map(has_ended, written))


async def test_failures_in_processes_are_retried(tmp_path: Path) -> None:
    handler, feed = Fails(tmp_path), feed_of(b"raise", b"die")
    feed.end()
    await feed.run(handler)
    assert feed.committed == 2
    assert causes(feed) == {"BrokenWorkerProcessError", "ValueError"}


async def test_coroutine_is_refused_in_a_process(tmp_path: Path) -> None:
    feed = feed_of(b"")
    feed.end()
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(Wrapped(tmp_path))
    error = raised.value.exceptions[0].__cause__
    assert isinstance(error, HandlerError)
    assert "remove `processes`" in str(error)
    assert feed.committed == 0


async def test_slow_process_is_killed(tmp_path: Path) -> None:
    handler, feed = Fails(tmp_path), feed_of(b"hang")
    handler.max_handler_time = 5
    feed.end()
    await feed.run(handler)
    assert feed.committed == 1
    assert causes(feed) == {"HandlerTimeoutError"}
    assert has_ended(pid_of(tmp_path / "tried-0"))


class SlowToStart:
    """A context of trio-parallel whose processes need ten seconds to start, in virtual time."""

    def __init__(self) -> None:
        self.idle = self.started = 0

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(idle_workers=self.idle)

    async def run_sync(self, function: Callable[..., None], *args: object, **options: object) -> None:
        if self.idle:
            self.idle -= 1
        else:
            self.started += 1
            await trio.sleep(10)
        await trio.sleep(0.5 if args else 0)
        self.idle += 1


async def test_start_of_a_process_does_not_count_as_handler_time(autojump_clock: MockClock) -> None:
    """Otherwise messages become dead letters before `handle` was called."""
    workers = SlowToStart()
    calls = Calls(print, 3, 1.0, processes=WorkerProcesses(workers), run=trio.to_thread.run_sync)
    message = Message("orders", 0, 0, 0, TimestampType.CREATE_TIME, None, b"")
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(start_and_call, calls, message)
    assert workers.started == 3


async def start_and_call(calls: Calls, message: Message) -> None:
    await calls.start_process()
    await calls.call([message])


async def test_claim_stop_during_process_start_handles_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, feed = Writes(tmp_path), feed_of(b"")
    starts = trio.Event()

    async def start(processes: WorkerProcesses) -> None:
        if handler._run is not None:  # not the first process, which `consume()` starts
            starts.set()
            with trio.CancelScope(shield=True):  # the start ends in spite of the cancellation
                await trio.sleep(0.2)

    monkeypatch.setattr(WorkerProcesses, "start", start)
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await starts.wait()
        feed.end(now=True)
    assert feed.committed == 0
    assert not (tmp_path / "0").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_signal_to_the_process_group_fails_no_message(tmp_path: Path, number: signal.Signals) -> None:
    """Service managers signal the whole process group. The member stops its processes after their messages."""
    handler, feed = Slow(tmp_path), feed_of(b"")
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        while not pid_of(tmp_path / "begun-0"):
            await trio.sleep(0.05)
        os.kill(pid_of(tmp_path / "begun-0"), number)
        (tmp_path / "end").touch()
        feed.end(now=True)
    assert feed.committed == 1
    assert feed.sent == []
    assert (tmp_path / "ended-0").exists()


async def test_stop_of_a_claim_kills_processes_after_the_grace(tmp_path: Path) -> None:
    handler, feed = Fails(tmp_path), feed_of(b"hang", config=Config(claim_grace=0.1))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        while not pid_of(tmp_path / "tried-0"):
            await trio.sleep(0.05)
        feed.end(now=True)
    assert feed.committed == 0
    assert has_ended(pid_of(tmp_path / "tried-0"))


class Async(MessageHandler):
    processes = 1

    async def handle(self, message: Message) -> None: ...


class Locked(Writes):
    def __init__(self) -> None:
        self.lock = threading.Lock()


def typed_locally() -> MessageHandler:
    class Order(msgspec.Struct):
        number: int

    handler = Writes(Path())
    handler.value_type = Order
    return handler


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (typed_locally(), "needs types of messages that a module defines, not a function: "),
        (Async(), "needs a plain `def handle`, without `async`"),
        (Locked(), "needs a handler that can be pickled; open connections in `handle`: TypeError: cannot pickle "),
    ],
)
async def test_handler_that_cannot_run_in_processes_is_refused(handler: MessageHandler, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        await feed_of(b"").run(handler)
    assert reason in str(raised.value)


async def test_handler_that_a_process_cannot_load_is_refused(tmp_path: Path) -> None:
    """Otherwise each message would fail, and become a dead letter."""
    handler, feed = CannotBeLoaded(tmp_path), feed_of(b"")
    handler.dead_letters = DeadLetterTopic()
    with pytest.raises(ConfigError, match="needs a handler that a new process can load"):
        await feed.run(handler)
    assert feed.sent == []


async def test_process_that_exits_with_an_error_is_no_failure(tmp_path: Path) -> None:
    feed = feed_of(b"")
    feed.end()
    await feed.run(EndsWithAnError(tmp_path))
    assert feed.committed == 1


SCRIPT = """
import sys
from pathlib import Path

import trio
from sarameya import DeadLetterTopic
from sarameya.testing import ClaimFeed
from tests.handling.process_kit import Fails


async def main():
    handler, feed = Fails(Path(sys.argv[1])), ClaimFeed("orders")
    handler.dead_letters = DeadLetterTopic()
    feed.send(b"hang")
    await feed.run(handler)
"""


async def test_script_without_a_main_guard_is_refused(tmp_path: Path) -> None:
    """A new process imports the script, and would run it again without the guard."""
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\n\ntrio.run(main)\n")
    ended = await trio.run_process(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_stderr=True,
        check=False,
    )
    assert ended.returncode == 1
    assert b"needs `if __name__ == '__main__':`" in ended.stderr
    assert not (tmp_path / "tried-0").exists()


def test_processes_end_with_a_killed_member(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\n\nif __name__ == '__main__':\n    trio.run(main)\n")
    member = subprocess.Popen(
        [sys.executable, script, tmp_path], env={**os.environ, "PYTHONPATH": os.getcwd()}, stdout=subprocess.PIPE
    )
    while not pid_of(tmp_path / "tried-0"):
        assert member.poll() is None
        time.sleep(0.05)
    member.kill()
    try:
        # The processes inherit the member's output. It ends when the last of them ends.
        assert member.communicate(timeout=300) == (b"", None)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid_of(tmp_path / "tried-0"), signal.SIGKILL)
