"""Rounds of commits, sent to a coordinator that accepts everything. Virtual time."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sarameya import CommittedOffset, Config, ErrorCode, Generation, KafkaError, TopicPartition
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.observe import CommitFailed, Observers
from sarameya.protocol.backoff import Backoff
from tests.step_counter import an_hour, counted

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class FakeCoordinator:
    """A coordinator and its client. `accepted` has the offsets of each commit, without partitions that it `refuses`."""

    def __init__(self) -> None:
        self.client: Any = self
        self.accepted: list[dict[str, int]] = []
        self.refuses: set[TopicPartition] = set()
        self.events: list[object] = []

    async def coordinator(self) -> int:
        return 0

    async def commit_generation(self) -> Generation | None:
        return Generation(1, "me", "range")

    def is_settled(self, generation: Generation) -> bool:
        return True

    def post(self, event: object) -> None:
        raise AssertionError(event)

    async def commit(
        self, node_id: int, generation: int, member_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int]:
        await trio.sleep(0.1)
        self.accepted.append({str(tp): offset.offset for tp, offset in offsets.items() if tp not in self.refuses})
        return {tp: ErrorCode.OFFSET_METADATA_TOO_LARGE if tp in self.refuses else 0 for tp in offsets}


@asynccontextmanager
async def managed(coordinator: FakeCoordinator, **options: Any) -> AsyncIterator[OffsetManager]:
    config = Config(**options)
    manager = OffsetManager(
        "g", coordinator, config, Observers([coordinator.events.append]), Backoff.of(config, random.Random(1))
    )
    manager.ledger.add(dict.fromkeys(ORDERS))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.run)
        yield manager
        nursery.cancel_scope.cancel()


async def test_commit_of_some_partitions_keeps_the_other_marks(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit=False) as manager:
        for partition in ORDERS:
            manager.ledger.mark(partition, CommittedOffset(7))
        await manager.commit(ORDERS[:1])
        await trio.sleep(60)
        assert coordinator.accepted == [{"orders-0": 7}]
        await manager.commit()
        assert coordinator.accepted[1:] == [{"orders-1": 7, "orders-2": 7}]


async def test_commits_requested_during_a_commit_share_a_round(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit=False) as manager, trio.open_nursery() as nursery:
        for partition in ORDERS:
            manager.ledger.mark(partition, CommittedOffset(7))
        nursery.start_soon(manager.commit, ORDERS[:1])
        await trio.sleep(0.05)
        nursery.start_soon(manager.commit, ORDERS[1:2])
        nursery.start_soon(manager.commit, ORDERS[2:])
    assert coordinator.accepted == [{"orders-0": 7}, {"orders-1": 7, "orders-2": 7}]


async def test_refused_mark_is_raised_to_the_callers_that_wait_for_it(autojump_clock: MockClock) -> None:
    raised: dict[str, list[str]] = {}

    async def commit(name: str, partitions: Sequence[TopicPartition] | None) -> None:
        try:
            await manager.commit(partitions)
        except KafkaError as error:
            raised[name] = re.findall(r"orders-\d", "; ".join([str(error), *getattr(error, "__notes__", ())]))

    coordinator = FakeCoordinator()
    coordinator.refuses = {ORDERS[0], ORDERS[1]}
    async with managed(coordinator, autocommit=False) as manager, trio.open_nursery() as nursery:
        for partition in ORDERS:
            manager.ledger.mark(partition, CommittedOffset(7))
        for name, partitions in {"one": ORDERS[:1], "others": ORDERS[1:], "last": ORDERS[2:], "all": None}.items():
            nursery.start_soon(commit, name, partitions)
    assert coordinator.accepted == [{"orders-2": 7}], "they share a round"
    assert raised == {"one": ["orders-0"], "others": ["orders-1"], "all": ["orders-0", "orders-1"]}
    assert not [e for e in coordinator.events if isinstance(e, CommitFailed)]


async def test_refused_mark_without_a_waiting_caller_is_reported(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    coordinator.refuses = set(ORDERS[:2])
    async with managed(coordinator, autocommit=False) as manager:
        for partition in ORDERS:
            manager.ledger.mark(partition, CommittedOffset(7))
        manager.commit_nowait()
        await manager.commit(ORDERS[2:])
        await wait_all_tasks_blocked()
    (failed,) = [e for e in coordinator.events if isinstance(e, CommitFailed)]
    assert re.findall(r"orders-\d", failed.cause) == ["orders-0", "orders-1"]


async def test_autocommit_commits_every_mark(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit_interval=5.0) as manager:
        for partition in ORDERS:
            manager.ledger.mark(partition, CommittedOffset(7))
        await trio.sleep(4.9)
        assert not coordinator.accepted
        await trio.sleep(1)
        assert coordinator.accepted == [{"orders-0": 7, "orders-1": 7, "orders-2": 7}]


async def test_first_mark_after_hours_is_committed_within_the_interval(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit_interval=5.0) as manager:
        await trio.sleep(2 * 3600 + 3)
        manager.ledger.mark(ORDERS[0], CommittedOffset(7))
        await trio.sleep(2.2)
        assert coordinator.accepted == [{"orders-0": 7}], "the intervals continue while nothing is marked"


async def test_reset_is_committed_within_the_interval(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit_interval=5.0) as manager:
        manager.ledger.add({ORDERS[0]: CommittedOffset(7)})
        await trio.sleep(60)
        manager.ledger.reset(ORDERS[0], CommittedOffset(2))
        await trio.sleep(5.2)
        assert coordinator.accepted == [{"orders-0": 2}]


async def test_mark_during_a_commit_is_committed_an_interval_later(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit_interval=5.0) as manager:
        manager.ledger.mark(ORDERS[0], CommittedOffset(7))
        await trio.sleep(5.05)
        manager.ledger.mark(ORDERS[0], CommittedOffset(8))
        await trio.sleep(5.2)
        assert coordinator.accepted == [{"orders-0": 7}, {"orders-0": 8}]


def in_a_trio_run_of_its_own(mark: Callable[[], bool]) -> None:
    async def work() -> None:
        mark()

    trio.run(work)


@pytest.mark.parametrize(
    "work", [lambda mark: mark(), in_a_trio_run_of_its_own], ids=["plain", "in a trio run of its own"]
)
async def test_mark_made_in_a_worker_thread_is_committed(
    autojump_clock: MockClock, work: Callable[[Callable[[], bool]], None]
) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit_interval=5.0) as manager:
        await wait_all_tasks_blocked()
        await trio.to_thread.run_sync(work, partial(manager.ledger.mark, ORDERS[0], CommittedOffset(7)))
        await trio.sleep(5.2)
        assert coordinator.accepted == [{"orders-0": 7}]


async def test_no_task_wakes_while_nothing_is_marked(autojump_clock: MockClock) -> None:
    coordinator = FakeCoordinator()
    async with managed(coordinator, autocommit_interval=5.0) as manager:
        manager.ledger.mark(ORDERS[0], CommittedOffset(7))
        await trio.sleep(60)
        assert await counted().of(1, an_hour) <= 2  # the test's own
