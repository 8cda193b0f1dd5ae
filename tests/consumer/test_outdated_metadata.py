"""Commits in a later leader epoch than the metadata has (KIP-320): the metadata is out of date. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import CommittedOffset, ErrorCode
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Committed, OffsetReset, Retrying
from sarameya.protocol.fetch.fetch_cursor import FetchCursor
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, Running, TopicPartition, committed, deadline, fill, orders, start_member

ORDERS = TopicPartition("orders", 0)


class Lag:
    """Outdated metadata of epoch 0, while `lasts`, and the leader of epoch 0, which knows no later one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lasts = True
        edit_answers(monkeypatch, Api.METADATA, self._metadata)
        edit_answers(monkeypatch, Api.FETCH, self._fetch, broker_id=0)

    def _metadata(self, request: Any, answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if self.lasts and topic.name == "orders":
                    partition.leader_id, partition.leader_epoch = 0, 0

    def _fetch(self, request: Any, answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.error_code = ErrorCode.OFFSET_OUT_OF_RANGE


@asynccontextmanager
async def cluster_with_two_epochs() -> AsyncIterator[tuple[EmbeddedCluster, trio.Nursery]]:
    """Yield a cluster with ten committed messages, five in each of two epochs."""
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 5)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(10)
        await member.close()
        assert cluster.committed("g") == {ORDERS: CommittedOffset(10, leader_epoch=1)}
        yield cluster, nursery


def offsets_committed(member: Running) -> list[int]:
    return [event.offsets[ORDERS] for event in member.seen(Committed)]


@pytest.mark.parametrize("seconds", [0.0, 3.0, 20.0])
@pytest.mark.parametrize("policy", ["oldest", "fail"])
async def test_fault_44_commit_in_a_newer_epoch_awaits_fresh_metadata(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, policy: str, seconds: float
) -> None:
    async with cluster_with_two_epochs() as (cluster, nursery):
        lag = Lag(monkeypatch)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await trio.sleep(seconds)
        assert handler.messages == []
        lag.lasts = False
        fill(cluster, 3)
        with trio.fail_after(5.0):
            await handler.received(3)
        assert handler.offsets("orders", 0) == [10, 11, 12]
        assert not member.seen(OffsetReset)
        if seconds:
            assert any("metadata is out of date" in event.cause for event in member.seen(Retrying))
        await member.close()
        assert all(offset >= 10 for offset in offsets_committed(member))
        assert committed(cluster) == {"orders-0": 13}


class StartsAhead(Recorder):
    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> CommittedOffset:
        return CommittedOffset(10, leader_epoch=5)


async def test_epoch_missing_in_all_metadata_is_reset_by_the_policy(autojump_clock: MockClock) -> None:
    """The topic was deleted and created again under its name, so its epochs start at 0 again."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = StartsAhead()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest", request_timeout=10.0)
        await trio.sleep(9.0)
        assert not member.seen(OffsetReset)
        with trio.fail_after(5.0):
            await handler.received(3)
        assert member.seen(OffsetReset)


@pytest.mark.parametrize(
    ("last", "leader", "is_ahead"), [(1, 0, True), (1, 1, False), (0, 1, False), (1, -1, False), (-1, 0, False)]
)
def test_position_is_ahead_of_a_leader_of_an_earlier_epoch(last: int, leader: int, is_ahead: bool) -> None:
    assert FetchCursor(ORDERS, 5, last).is_ahead_of(leader) is is_ahead
