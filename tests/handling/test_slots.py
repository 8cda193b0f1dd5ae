"""Slots of calls of a handler."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from sarameya.handling.slots import Slots


class Started:
    """Calls that have started, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def start(self, name: str, *, takes: bool = True) -> bool:
        self.names.append(name)
        return takes


def test_slots_are_given_in_the_order_of_the_requests() -> None:
    slots, started = Slots(2), Started()
    for name in "abcd":
        slots.request(partial(started.start, name))
    assert started.names == ["a", "b"]
    slots.release()
    assert started.names == ["a", "b", "c"]
    slots.release()
    slots.release()
    slots.release()
    slots.request(partial(started.start, "e"))
    slots.request(partial(started.start, "f"))
    slots.request(partial(started.start, "g"))
    assert started.names == [*"abcdef"]


def test_slot_that_is_not_taken_goes_to_the_next_request() -> None:
    slots, started = Slots(1), Started()
    for name, takes in (("a", True), ("b", False), ("c", False), ("d", True), ("e", True)):
        slots.request(partial(started.start, name, takes=takes))
    slots.release()
    assert started.names == [*"abcd"]


def test_claim_gets_no_more_than_its_part() -> None:
    every, started = Slots(3), Started()
    one, other = Slots(2, within=every), Slots(2, within=every)
    for slots, name in ((one, "a"), (one, "b"), (one, "c"), (other, "d"), (other, "e")):
        slots.request(partial(started.start, name))
    assert started.names == ["a", "b", "d"], "one's third request waits although a slot is free"
    one.release()
    assert started.names == ["a", "b", "d", "e"], "the request that waits longer comes first"
    other.release()
    assert started.names == ["a", "b", "d", "e", "c"]


async def test_waiting_task_gets_a_slot() -> None:
    slots, got = Slots(1), list[int]()

    async def wait(number: int) -> None:
        await slots.acquire()
        got.append(number)

    await slots.acquire()
    async with trio.open_nursery() as nursery:
        for number in range(2):
            nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
        assert got == []
        slots.release()
        await trio.testing.wait_all_tasks_blocked()
        assert got == [0]
        slots.release()
    assert got == [0, 1]


@pytest.mark.parametrize("parts", [1, 2])
async def test_cancelled_wait_takes_no_slot(parts: int) -> None:
    slots = Slots(1) if parts == 1 else Slots(1, within=Slots(1))
    await slots.acquire()
    with trio.move_on_after(0) as scope:
        await slots.acquire()
    assert scope.cancelled_caught
    slots.release()
    if parts == 1:  # a claim with a part of its own has ended by now
        await slots.acquire()


async def test_slot_given_at_the_moment_of_a_cancellation_is_kept() -> None:
    slots, kept = Slots(1), False

    async def wait() -> None:
        nonlocal kept
        await slots.acquire()
        kept = True

    await slots.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        slots.release()
        nursery.cancel_scope.cancel()
    assert kept
