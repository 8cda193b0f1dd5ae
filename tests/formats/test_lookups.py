"""Lookups that several tasks wait for."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from sarameya import RegistryError
from sarameya.formats.lookups import Lookups


class Slow:
    """A function that blocks until `may_end` is set, and then raises `error` or returns the key in upper case."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.may_end = threading.Event()
        self.error: Exception | None = None

    def __call__(self, key: str) -> str:
        self.calls.append(key)
        self.may_end.wait(30)
        if self.error is not None:
            raise self.error
        return key.upper()


async def until_called(slow: Slow, times: int = 1) -> None:
    with trio.fail_after(30):
        while len(slow.calls) < times:
            await trio.sleep(0.001)


async def test_concurrent_lookups_call_the_function_once() -> None:
    slow, found = Slow(), []
    lookups = Lookups(slow)

    async def get() -> None:
        found.append(await lookups.get("a"))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(get)
        await until_called(slow)
        slow.may_end.set()
    assert await lookups.get("a") == "A"
    assert (found, slow.calls) == (["A"] * 5, ["a"])


async def test_error_is_raised_in_all_tasks_and_not_cached() -> None:
    slow, errors = Slow(), []
    lookups = Lookups(slow)
    slow.error = RegistryError("it is down")

    async def get() -> None:
        with pytest.raises(RegistryError, match="it is down") as raised:
            await lookups.get("a")
        errors.append(raised.value)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(get)
        await until_called(slow)
        slow.may_end.set()
    assert len(set(map(id, errors))) == 3
    assert slow.calls == ["a"]
    slow.error = None
    assert await lookups.get("a") == "A"


async def test_cancelled_lookup_is_repeated_by_a_waiting_task() -> None:
    slow, found = Slow(), []
    lookups = Lookups(slow)

    async def get() -> None:
        found.append(await lookups.get("a"))

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as first:
            first.start_soon(get)
            await until_called(slow)
            nursery.start_soon(get)
            await trio.testing.wait_all_tasks_blocked()
            first.cancel_scope.cancel()
        await until_called(slow, 2)
        slow.may_end.set()
    assert found == ["A"]
