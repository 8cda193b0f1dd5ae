"""Epoch checks with a new leader (KIP-320) that do not confirm the read log, or confirm a deleted one."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from sarameya import LogTruncatedError, TopicPartition, TopicRecreatedError
from sarameya.consumer.resets import TRUNCATED
from sarameya.observe import OffsetReset
from sarameya.protocol import versions
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, watch_fetches
from tests.group.kit import Recorder, claim_failure, deadline, eventually, fill, orders, start_member

PARTITION = TopicPartition("orders", 0)


def know_nothing(request: Any, answer: Any) -> None:
    """Respond as a leader without the epoch and any earlier one: retention has deleted them, or they never existed."""
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.end_offset = partition.leader_epoch = -1


async def test_log_without_the_read_epoch_fails_the_claim(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_answers(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH, know_nothing)
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(20)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, LogTruncatedError)
        assert (error.partition, error.offset, error.diverging_offset) == (PARTITION, 20, None)
        assert "the log does not have the records read before offset 20" in str(error)
        assert len(handler.messages) == 20


@pytest.mark.parametrize(("policy", "after"), [("oldest", 0), ("newest", 25)])
async def test_log_without_the_read_epoch_is_reset_by_the_policy(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, policy: str, after: int
) -> None:
    edit_answers(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH, know_nothing)
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await handler.received(20)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        fill(cluster, 5)
        await handler.received(20 + 30 - after)
        assert handler.offsets("orders", 0)[20:] == list(range(after, 30))
        assert member.seen(OffsetReset) == [OffsetReset(PARTITION, 20, after, policy, TRUNCATED, 0, 25, 0)]


@pytest.mark.parametrize("fetch_version", [12, 17])
async def test_topic_recreated_during_an_epoch_check_fails_the_claim(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, fetch_version: int
) -> None:
    """The new leader confirms the log as it was at the time of the request."""
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.FETCH, versions.VersionRange(4, fetch_version))
    fetches = watch_fetches(monkeypatch)
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, metadata_max_age=3.0)
        await handler.received(20)
        cluster.delay_next(Api.OFFSET_FOR_LEADER_EPOCH, 10.0)
        cluster.move_leader("orders", 0, 1)
        await eventually(lambda: not cluster.faults)
        fetches.clear()
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)
        fill(cluster, 30)
        await member.ended.wait()
        assert isinstance(claim_failure(member), TopicRecreatedError)
        assert handler.offsets("orders", 0) == list(range(20))
        assert not fetches.seen
