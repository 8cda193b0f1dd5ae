from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from sarameya.service.output.error_report import ExitCode
from sarameya.service.process.signals import (
    Stop,
    _listened_to,
    obey,
    run_program,
    stop_at_end_of_input,
    stop_with_supervisor,
)


async def received_signals(*numbers: int) -> AsyncIterator[int]:
    for number in numbers:
        await trio.lowlevel.checkpoint()
        yield number


async def test_first_signal_only_requests_a_stop() -> None:
    stop, codes = Stop(), list[int]()
    await obey(received_signals(signal.SIGTERM), stop, codes.append)
    assert stop.is_requested
    assert codes == []


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (signal.SIGTERM, signal.SIGTERM, 143),
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGINT, signal.SIGTERM, 143),
    ],
)
async def test_second_signal_exits_at_once_with_its_own_code(first: int, second: int, code: int) -> None:
    codes = list[int]()
    await obey(received_signals(first, second), Stop(), codes.append)
    assert codes == [code]


async def test_signal_after_a_failure_counts_as_the_first() -> None:
    stop, codes = Stop(), list[int]()
    stop.request("a member failed")
    await obey(received_signals(signal.SIGTERM), stop, codes.append)
    assert codes == []


async def test_closed_pipe_requests_a_stop() -> None:
    read, write = os.pipe()
    stop = Stop()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: stop_at_end_of_input(stop, fd=read))
            os.write(write, b"whatever is written is not a request to stop")
            await trio.testing.wait_all_tasks_blocked()
            assert not stop.is_requested
            os.close(write)
            await stop.wait()
    os.close(read)


@pytest.mark.parametrize(
    ("word", "cause"), [(b"stop\n", "stop requested by the supervisor"), (b"", "the supervisor has ended")]
)
async def test_cause_of_a_stop_is_the_supervisors_request_or_end(word: bytes, cause: str) -> None:
    read, write = os.pipe()
    stop = Stop()
    if word:
        os.write(write, word)
    os.close(write)
    with trio.fail_after(5):
        await stop_with_supervisor(stop, fd=read)
    assert stop.cause == cause
    os.close(read)


def test_real_signal_stops_the_program_in_order() -> None:
    async def program(stop: Stop) -> ExitCode:
        os.kill(os.getpid(), signal.SIGTERM)
        with trio.fail_after(5):
            await stop.wait()
        return ExitCode.OK

    assert run_program(program) is ExitCode.OK


def test_failing_program_raises_its_error() -> None:
    async def program(stop: Stop) -> ExitCode:
        raise ValueError("bug")

    with pytest.raises(ExceptionGroup) as caught:
        run_program(program)
    assert caught.group_contains(ValueError, match="bug")


STUBBORN = """
import signal, trio
from sarameya.service.process.signals import run_program
async def stubborn(stop):
    print("up", flush=True)
    await stop.wait()
    print("stop requested", flush=True)
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
run_program(stubborn, before_exit=lambda: print("last words", flush=True))
"""


def test_second_real_signal_ends_a_program_that_does_not_stop() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "stop requested\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == "last words\n"
            assert process.wait(5) == 130
        finally:
            process.kill()


@pytest.mark.parametrize(("handler", "listened"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_closed_terminal_ends_the_service_unless_ignored(handler: signal.Handlers, listened: bool) -> None:
    before = signal.signal(signal.SIGHUP, handler)
    try:
        assert (signal.SIGHUP in _listened_to()) is listened
    finally:
        signal.signal(signal.SIGHUP, before)
