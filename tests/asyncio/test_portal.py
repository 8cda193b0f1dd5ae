"""Calls between asyncio's thread and trio's thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from sarameya.asyncio.mailbox import Mailbox
from sarameya.asyncio.portal import Portal
from tests.asyncio.kit import run

variable = contextvars.ContextVar("variable", default=0)


@asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def portal_of(runtime: Any = None) -> AsyncIterator[Portal]:
    portal = Portal("portal", nothing() if runtime is None else runtime, "it is closed")
    await portal.open()
    try:
        yield portal
    finally:
        await portal.close()


def test_mailbox_wakes_once_for_several_functions() -> None:
    woken: list[Callable[[], None]] = []
    mailbox, ran = Mailbox(woken.append), list[int]()
    for number in range(3):
        mailbox.put(lambda number=number: ran.append(number))  # type: ignore[misc]
    assert (len(woken), ran) == (1, [])
    woken.pop()()
    assert ran == [0, 1, 2]
    mailbox.put(lambda: mailbox.put(lambda: ran.append(3)))
    woken.pop(0)()
    assert ran == [0, 1, 2, 3]
    while woken:
        woken.pop()()
    assert ran == [0, 1, 2, 3]


def test_mailbox_runs_the_others_after_an_exception() -> None:
    woken: list[Callable[[], None]] = []
    mailbox, ran = Mailbox(woken.append), list[int]()
    mailbox.put(lambda: 1 // 0)
    mailbox.put(lambda: ran.append(1))
    with pytest.raises(ZeroDivisionError):
        woken.pop()()
    woken.pop()()
    assert (ran, woken) == ([1], [])


def test_calls_cross_in_both_directions_with_their_context() -> None:
    async def in_asyncio(value: int) -> tuple[int, int, int]:
        await asyncio.sleep(0)
        return value, variable.get(), threading.get_ident()

    async def main() -> None:
        async with portal_of() as portal:

            async def in_trio(value: int) -> tuple[tuple[int, int, int], int]:
                await trio.lowlevel.checkpoint()
                variable.set(variable.get() + 1)
                return await portal.call_back(in_asyncio, value, name="back"), threading.get_ident()

            variable.set(5)
            (value, seen, thread), other = await portal.call(in_trio, 7)
            assert (value, seen, thread) == (7, 6, threading.get_ident())
            assert other != thread
            assert variable.get() == 5

    run(main)


def test_cancellation_waits_for_the_other_side() -> None:
    seen: list[str] = []

    async def in_asyncio() -> None:
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            seen.append("asyncio")
            raise

    async def main() -> None:
        async with portal_of() as portal:

            async def in_trio() -> None:
                try:
                    await portal.call_back(in_asyncio, name="back")
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(0.01)
                    seen.append("trio")

            task = asyncio.create_task(portal.call(in_trio))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert seen == ["asyncio", "trio"]

    run(main)


def test_callback_that_ignores_cancellation_returns() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            return "done"
        return ""

    async def main() -> None:
        async with portal_of() as portal:

            async def in_trio() -> tuple[str, bool]:
                with trio.move_on_after(0.01) as scope:
                    found = await portal.call_back(stubborn, name="back")
                return found, scope.cancelled_caught

            assert await portal.call(in_trio) == ("done", False)

    run(main)


def test_callback_fails_if_the_loop_starts_no_task() -> None:
    def refuse(*args: object, **options: object) -> asyncio.Task[None]:
        raise OSError("no more tasks")

    async def call_back() -> None: ...

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with portal_of() as portal:

            async def in_trio() -> None:
                await portal.call_back(call_back, name="back")

            call = portal.start(in_trio)
            loop.set_task_factory(refuse)
            await call.wait()
            loop.set_task_factory(None)
            with pytest.raises(OSError, match="no more tasks"):
                call.result()

    run(main)


def test_exception_of_a_posted_function_goes_to_the_loops_handler() -> None:
    async def main() -> None:
        reported = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.set_result(context))
        async with portal_of() as portal:
            portal.post(int, "x")
            context = await reported
        assert str(context["message"]).startswith("portal: invalid literal for int()")
        assert isinstance(context["exception"], ValueError)

    run(main)


def test_failed_object_ends_all_calls_and_close_raises_its_error() -> None:
    fails = trio.Event()

    @asynccontextmanager
    async def failing() -> AsyncIterator[None]:
        async def fail() -> None:
            await fails.wait()
            raise ValueError("broken")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            yield

    async def main() -> None:
        portal = Portal("portal", failing(), "it is closed")
        await portal.open()
        waiting = asyncio.create_task(portal.call(trio.sleep_forever))
        await portal.call_sync(fails.set)
        with pytest.raises(RuntimeError, match=r"portal has failed: ValueError\('broken'\)") as failed:
            await waiting
        assert isinstance(failed.value.__cause__, ExceptionGroup)
        with pytest.raises(RuntimeError, match="portal has failed") as failed:
            await portal.call_sync(int)
        assert isinstance(failed.value.__cause__, ExceptionGroup)
        with pytest.raises(ExceptionGroup) as raised:
            await portal.close()
        assert raised.group_contains(ValueError, match="broken")

    run(main)


def test_call_that_returns_while_its_object_fails_raises() -> None:
    """The end of the group's block lets `consume()` return normally; the caller must not mistake it for `close()`."""
    fails, ends, returned = trio.Event(), trio.Event(), trio.Event()

    @asynccontextmanager
    async def failing() -> AsyncIterator[None]:
        async def fail() -> None:
            await fails.wait()
            raise ValueError("broken")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            try:
                yield
            finally:
                ends.set()
                with trio.CancelScope(shield=True):
                    await returned.wait()

    async def consume() -> None:
        fails.set()
        await ends.wait()
        returned.set()

    async def main() -> None:
        portal = Portal("portal", failing(), "it is closed")
        await portal.open()
        with pytest.raises(RuntimeError, match=r"portal has failed: ValueError\('broken'\)"):
            await portal.call(consume)
        with pytest.raises(ExceptionGroup):
            await portal.close()

    run(main)


def test_calls_end_even_if_trio_itself_fails() -> None:
    async def main() -> None:
        async def crash() -> None:
            raise OSError("crash")

        portal = Portal("portal", nothing(), "it is closed")
        await portal.open()
        waiting = asyncio.create_task(portal.call(trio.sleep_forever))
        await portal.call_sync(lambda: trio.lowlevel.spawn_system_task(crash))
        with pytest.raises(RuntimeError, match="portal has failed: TrioInternalError"):
            await waiting
        with pytest.raises(trio.TrioInternalError):
            await portal.close()

    run(main)


def test_group_of_cancellations_is_not_a_result() -> None:
    """A nursery with several cancelled tasks raises such a group."""

    async def sleep_twice() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    async def main() -> None:
        portal = Portal("portal", nothing(), "it is closed")
        await portal.open()
        call = portal.start(sleep_twice)
        await portal.call(trio.lowlevel.checkpoint)
        await portal.close()
        await call.wait()
        with pytest.raises(RuntimeError, match="it is closed"):
            call.result()

    run(main)
