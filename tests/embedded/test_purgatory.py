"""The purgatory: operations complete once, on an event or at the deadline, and are then released."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.embedded.purgatory import DelayedOperation, Purgatory


class Wait(DelayedOperation):
    """An operation that waits for `ready` and records when and how its wait ended."""

    def __init__(self, deadline: float, then: Callable[[float], None] = lambda now: None) -> None:
        super().__init__(deadline)
        self.ready = False
        self.completed: list[float] = []
        self.expired: list[float] = []
        self.then = then

    def can_complete(self) -> bool:
        return self.ready

    def on_complete(self, now: float) -> None:
        self.completed.append(now)
        self.then(now)

    def on_expire(self, now: float) -> None:
        assert self.completed, "on_expire comes after on_complete"
        self.expired.append(now)


def watched(purgatory: Purgatory, deadline: float, *keys: str, now: float = 0.0) -> Wait:
    operation = Wait(deadline)
    assert not purgatory.try_complete_else_watch(operation, keys or ("k",), now)
    return operation


def test_watch_of_a_completable_operation_completes_it_at_once() -> None:
    purgatory = Purgatory()
    operation = Wait(10)
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ("k",), 3)
    assert (operation.completed, operation.expired, len(purgatory)) == ([3], [], 0)


@pytest.mark.parametrize("deadline", [0, 3])
def test_watch_with_a_past_deadline_expires_at_once(deadline: float) -> None:
    purgatory = Purgatory()
    operation = Wait(deadline)
    assert purgatory.try_complete_else_watch(operation, ("k",), 3)
    assert (operation.completed, operation.expired, len(purgatory)) == ([3], [3], 0)


def test_check_completes_only_the_ready_ones_of_its_key() -> None:
    purgatory = Purgatory()
    ready, unready, elsewhere = watched(purgatory, 10), watched(purgatory, 10), watched(purgatory, 10, "other")
    ready.ready = elsewhere.ready = True
    assert purgatory.check_and_complete("k", 2) == 1
    assert (ready.completed, unready.completed, elsewhere.completed) == ([2], [], [])
    assert purgatory.check_and_complete("nobody's", 2) == 0


def test_operation_under_several_keys_completes_once() -> None:
    purgatory = Purgatory()
    operation = watched(purgatory, 10, "a", "b")
    operation.ready = True
    assert purgatory.check_and_complete("b", 1) == 1
    assert purgatory.check_and_complete("a", 2) == 0
    assert purgatory.expire(100) == 0
    assert operation.completed == [1]
    assert (purgatory.watched("a"), purgatory.watched("b")) == (0, 0)


def test_expiry_completes_in_the_order_of_the_deadlines() -> None:
    purgatory = Purgatory()
    order: list[str] = []
    for name, deadline in [("late", 30.0), ("second", 20.0), ("first", 10.0), ("second too", 20.0)]:
        purgatory.try_complete_else_watch(Wait(deadline, lambda now, name=name: order.append(name)), (name,), 0)
    assert purgatory.next_deadline() == 10
    assert purgatory.expire(20) == 3
    assert order == ["first", "second", "second too"]
    assert purgatory.next_deadline() == 30


def test_expire_next_before_the_deadline_does_nothing() -> None:
    purgatory = Purgatory()
    operation = watched(purgatory, 10)
    assert not purgatory.expire_next(9.999)
    assert operation.completed == []
    assert purgatory.expire_next(10)
    assert (operation.completed, operation.expired) == ([10], [10])


def test_cancelled_operation_never_completes() -> None:
    purgatory = Purgatory()
    operation = watched(purgatory, 10)
    assert purgatory.cancel(operation)
    assert not purgatory.cancel(operation)
    operation.ready = True
    assert purgatory.check_and_complete("k", 1) == 0
    assert purgatory.expire(100) == 0
    assert purgatory.next_deadline() is None
    assert operation.completed == []


def test_operation_completed_by_another_completes_once() -> None:
    purgatory = Purgatory()
    second = Wait(10)
    first = Wait(10, lambda now: second.on_complete(now) if purgatory.cancel(second) else None)
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ("k",), 0)
        operation.ready = True
    assert purgatory.check_and_complete("k", 1) == 1
    assert (first.completed, second.completed) == ([1], [1])


def test_operation_watched_on_completion_is_checked_later() -> None:
    purgatory = Purgatory()
    successor = Wait(20)
    operation = Wait(10, lambda now: purgatory.try_complete_else_watch(successor, ("k",), now) and None)
    purgatory.try_complete_else_watch(operation, ("k",), 0)
    operation.ready = True
    assert purgatory.check_and_complete("k", 1) == 1
    assert (successor.completed, len(purgatory), purgatory.next_deadline()) == ([], 1, 20)


def test_completed_operation_is_not_kept_alive_by_its_deadline() -> None:
    purgatory = Purgatory()
    operation = watched(purgatory, 1e9)
    operation.ready = True
    purgatory.check_and_complete("k", 1)
    reference = weakref.ref(operation)
    del operation
    gc.collect()
    assert reference() is None


def test_heap_stays_small_if_operations_complete_early() -> None:
    purgatory = Purgatory()
    keeper = watched(purgatory, 1e9, "keeper")
    for tick in range(10_000):  # a member that heartbeats for eight hours
        operation = watched(purgatory, tick + 45.0, now=float(tick))
        operation.ready = True
        purgatory.check_and_complete("k", float(tick))
    assert len(purgatory._heap) < 64
    assert (len(purgatory), purgatory.next_deadline(), keeper.completed) == (1, 1e9, [])


Step = st.tuples(
    st.sampled_from(["watch", "ready", "check", "cancel", "advance"]), st.integers(0, 5), st.integers(0, 9)
)


@given(st.lists(Step, max_size=60))
def test_any_schedule_completes_each_operation_once(steps: list[tuple[str, int, int]]) -> None:
    purgatory, now = Purgatory(), 0.0
    operations: list[Wait] = []
    cancelled: set[Wait] = set()
    for action, number, amount in steps:
        chosen = operations[number % len(operations)] if operations else None
        if action == "watch":
            operations.append(Wait(now + amount))
            purgatory.try_complete_else_watch(operations[-1], (str(number), str(amount)), now)
        elif action == "check":
            purgatory.check_and_complete(str(number), now)
        elif action == "advance":
            now += amount
            purgatory.expire(now)
        elif chosen is not None and action == "ready":
            chosen.ready = True
        elif chosen is not None and purgatory.cancel(chosen):
            cancelled.add(chosen)
        waiting = [o for o in operations if not o.completed and o not in cancelled]
        assert len(purgatory) == len(waiting)
        assert purgatory.next_deadline() == min((o.deadline for o in waiting), default=None)
    purgatory.expire(now + 100)
    assert all(len(o.completed) == (o not in cancelled) for o in operations)
    assert (len(purgatory), purgatory._watchers, purgatory.next_deadline()) == (0, {}, None)
