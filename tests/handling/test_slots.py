"""Slots that limit the concurrent calls of a handler."""

from __future__ import annotations

from collections.abc import Hashable

import trio
import trio.testing

from sarameya.handling.slots import ClaimSlots, Slot, Slots


class Claim:
    """The slots of a claim, with the lanes for which tasks were started."""

    def __init__(self, slots: Slots, limit: int = 100) -> None:
        self.slots = ClaimSlots(slots, limit, self.start)
        self.started: list[Hashable] = []
        self.tasks: list[Slot] = []

    def start(self, lane: Hashable) -> None:
        self.started.append(lane)
        self.tasks.append(Slot(self.slots))

    def request(self, *lanes: int) -> None:
        for lane in lanes:
            self.slots.request(lane)


def test_lanes_are_started_in_order_while_there_are_slots() -> None:
    claim = Claim(Slots(2))
    claim.request(1, 2, 3, 4)
    assert claim.started == [1, 2]
    claim.tasks[0].release()
    assert claim.started == [1, 2, 3]
    claim.tasks[0].release()
    assert claim.started == [1, 2, 3], "a second release of one task freed another slot"


def test_task_continues_with_the_next_lane() -> None:
    claim = Claim(Slots(2))
    claim.request(1, 2, 3)
    assert [claim.tasks[0].next(), claim.tasks[0].next()] == [3, None]
    assert not claim.tasks[0].is_held
    assert claim.tasks[0].next() is None
    claim.request(4)
    assert claim.started == [1, 2, 4]


def test_claim_without_a_slot_gets_the_next_free_slot() -> None:
    slots = Slots(3)
    one, other = Claim(slots), Claim(slots)
    one.request(*range(9))
    other.request(1)
    assert other.started == []
    assert one.tasks[0].next() is None
    assert other.started == [1]
    assert one.tasks[1].next() == 3, "the other claim requests no more slots"


def test_slots_become_evenly_distributed_among_claims() -> None:
    slots = Slots(9)
    claims = [Claim(slots) for _ in range(3)]
    for claim in claims:
        claim.request(*range(1000))
    assert [len(claim.started) for claim in claims] == [9, 0, 0]
    for _ in range(20):
        for claim in claims:
            for task in claim.tasks:
                task.next()
    held = [sum(task.is_held for task in claim.tasks) for claim in claims]
    assert sum(held) == 9
    assert max(held) - min(held) <= 1


def test_all_claims_get_a_slot_in_turn() -> None:
    slots = Slots(2)
    claims = [Claim(slots) for _ in range(10)]
    for claim in claims:
        claim.request(*range(100))
    for _ in range(20):
        for claim in claims:
            for task in claim.tasks:
                task.next()
    assert min(len(claim.started) for claim in claims) > 1


def test_claim_gets_no_more_than_its_limit() -> None:
    slots = Slots(3)
    claim = Claim(slots, limit=2)
    claim.request(1, 2, 3)
    assert claim.started == [1, 2]
    claim.tasks[0].release()
    assert claim.started == [1, 2, 3]


def test_closed_claim_starts_no_task() -> None:
    slots = Slots(1)
    one, other = Claim(slots), Claim(slots)
    one.request(1, 2)
    other.request(1)
    one.slots.close()
    one.request(3)
    assert one.tasks[0].next() is None
    assert (one.started, other.started) == ([1], [1])


async def test_waiting_task_precedes_lanes() -> None:
    claim = Claim(Slots(1))
    claim.request(1, 2)
    waiting = Slot(claim.slots)
    waiting.is_held = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.acquire)
        await trio.testing.wait_all_tasks_blocked()
        assert not waiting.is_held
        assert claim.tasks[0].next() is None
    assert waiting.is_held
    assert waiting.next() == 2


async def test_slot_given_at_the_moment_of_a_cancellation_is_kept() -> None:
    claim = Claim(Slots(1))
    claim.request(1)
    waiting = Slot(claim.slots)
    waiting.is_held = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.acquire)
        await trio.testing.wait_all_tasks_blocked()
        claim.tasks[0].release()
        nursery.cancel_scope.cancel()
    assert waiting.is_held


async def test_slot_given_after_a_cancellation_is_returned() -> None:
    slots = Slots(1)
    one, other = Claim(slots), Claim(slots)
    one.request(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.slots.acquire)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        one.tasks[0].release()  # in the same pass of the scheduler
    one.request(2)
    assert one.started == [1, 2]


async def test_cancelled_task_takes_no_slot() -> None:
    slots = Slots(1)
    one, other = Claim(slots), Claim(slots)
    one.request(1)
    with trio.move_on_after(0) as scope:
        await other.slots.acquire()
    assert scope.cancelled_caught
    one.tasks[0].release()
    one.request(2)
    assert one.started == [1, 2]
