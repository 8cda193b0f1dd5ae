"""Committed offsets are requested until they are known.

A failure never counts as "nothing committed": then the policy would decide, and skip or repeat records. Virtual time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import ErrorCode
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimStarted, CoordinatorFound, Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, Running, committed, deadline, eventually, fill, orders, start_member
from tests.group.received_requests import of, watch

COMMITTED = {"orders-0": 5, "orders-1": 2}
each_policy = pytest.mark.parametrize("policy", ["oldest", "newest"])


@asynccontextmanager
async def group_that_has_read(brokers: int = 1) -> AsyncIterator[tuple[EmbeddedCluster, trio.Nursery]]:
    """Yield a group without members that has committed, with three more messages in each partition."""
    async with orders(2, brokers=brokers) as cluster, deadline() as nursery:
        fill(cluster, 5, 0)
        fill(cluster, 2, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(7)
        await member.close()
        assert committed(cluster) == COMMITTED
        for partition in (0, 1):
            fill(cluster, 3, partition)
        yield cluster, nursery


async def starts(member: Running) -> dict[str, int]:
    """Return the start offsets of a new member's claims."""
    await eventually(lambda: len(member.seen(ClaimStarted)) == 2)
    assert {event.why for event in member.seen(ClaimStarted)} == {"committed"}
    return {str(event.partition): event.offset for event in member.seen(ClaimStarted)}


@each_policy
@pytest.mark.parametrize("hang_up", [True, False], ids=["hung up", "silent"])
@pytest.mark.parametrize("half", ["request", "answer"])
async def test_lost_offset_fetch_is_retried(autojump_clock: MockClock, half: Any, hang_up: bool, policy: str) -> None:
    async with group_that_has_read() as (cluster, nursery):
        cluster.drop_next(Api.OFFSET_FETCH, 2, half=half, hang_up=hang_up)
        member = await start_member(nursery, cluster, Recorder(), offset_initial=policy, request_timeout=5.0)
        assert await starts(member) == COMMITTED
        assert cluster.faults == ()
        assert [e.attempt for e in member.seen(Retrying) if e.what == "offset fetch of group g"] == [1, 2]


@each_policy
async def test_coordinator_moved_before_the_offset_fetch_is_found(autojump_clock: MockClock, policy: str) -> None:
    async with group_that_has_read(brokers=2) as (cluster, nursery):
        cluster.delay_next(Api.OFFSET_FETCH, 2.0, half="request")
        member = await start_member(nursery, cluster, Recorder(), offset_initial=policy)
        await eventually(lambda: cluster.faults == ())
        cluster.move_coordinator("g", 1 - member.seen(CoordinatorFound)[-1].node_id)
        assert await starts(member) == COMMITTED
        assert [e.cause for e in member.seen(Retrying) if e.what == "offset fetch of group g"] == [
            "NOT_COORDINATOR (16)"
        ]
        assert len({event.node_id for event in member.seen(CoordinatorFound)}) == 2


def left_out(answer: Any) -> None:
    for topic in answer.topics:
        topic.partitions = [p for p in topic.partitions if p.partition_index != 1]


def topic_left_out(answer: Any) -> None:
    answer.topics = []


def unstable(answer: Any) -> None:
    """Change a response to that for a partition to which a transaction is committing (KIP-447)."""
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.partition_index == 1:
                partition.error_code, partition.committed_offset = ErrorCode.UNSTABLE_OFFSET_COMMIT, -1


def refused(answer: Any) -> None:
    """Change a response to an error without codes of partitions."""
    answer.error_code, answer.topics = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []


@each_policy
@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (left_out, "the coordinator left orders-1 out of its answer"),
        (topic_left_out, "the coordinator left orders-0 out of its answer"),
        (unstable, "UNSTABLE_OFFSET_COMMIT (88)"),
        (refused, "COORDINATOR_LOAD_IN_PROGRESS (14)"),
    ],
)
async def test_incomplete_offset_fetch_response_is_retried(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[Any], None],
    cause: str,
    policy: str,
) -> None:
    left = 0

    def edit_some(request: Any, answer: Any) -> None:
        nonlocal left
        if left:
            left -= 1
            edit(answer)

    edit_answers(monkeypatch, Api.OFFSET_FETCH, edit_some)
    async with group_that_has_read() as (cluster, nursery):
        left = 3
        member = await start_member(nursery, cluster, Recorder(), offset_initial=policy, request_timeout=5.0)
        assert await starts(member) == COMMITTED
        assert [(e.attempt, e.cause) for e in member.seen(Retrying)] == [(1, cause), (2, cause), (3, cause)]


async def test_offsets_are_fetched_stable_and_in_one_request(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_that_has_read() as (cluster, nursery):
        received = watch(monkeypatch)
        await starts(await start_member(nursery, cluster, Recorder()))
        (fetch,) = of(received, Api.OFFSET_FETCH)
        assert fetch.body.require_stable is True, (
            "else offsets that a transaction is about to commit would be missed (KIP-447)"
        )
        assert [(topic.name, sorted(topic.partition_indexes)) for topic in fetch.body.topics] == [("orders", [0, 1])]
