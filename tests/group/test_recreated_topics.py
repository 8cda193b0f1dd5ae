"""Topics that are deleted and recreated within a second: all messages of the new topic are read. Virtual time."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, Message, Session, TopicPartition, TopicRecreatedError
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from sarameya.protocol.subscription import Growth
from tests.group.kit import Recorder, Running, claim_failure, committed, deadline, fill, orders, start_member

NEWEST: dict[str, Any] = {"offset_initial": "newest", "metadata_max_age": 5.0}


def has_claimed(handler: Recorder, *partitions: str) -> bool:
    return {f"claim {partition}" for partition in partitions} <= set(handler.calls)


async def recreate(cluster: EmbeddedCluster, gap: float) -> None:
    cluster.delete_topic("orders")
    await trio.sleep(gap)
    cluster.create_topic("orders", 2)
    fill(cluster, 3, 0)
    fill(cluster, 3, 1)


async def check_reads_all(nursery: trio.Nursery, cluster: EmbeddedCluster, **options: Any) -> Running:
    handler = Recorder()
    member = await start_member(nursery, cluster, handler, **options)
    with trio.fail_after(5.0):
        await handler.received(6)
    assert sorted((m.partition, m.offset) for m in handler.messages) == [(p, o) for p in (0, 1) for o in range(3)]
    return member


@pytest.mark.parametrize("gap", [0.0, 0.5])
@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_fault_47_recreated_topic_is_read_from_its_start(
    autojump_clock: MockClock, strategy: str, autocommit: bool, gap: float
) -> None:
    """The claim fails, since it is another topic. The next member, after a restart, reads all of it."""
    options = {**NEWEST, "rebalance_strategies": (strategy,), "autocommit": autocommit}
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, **options)
        await handler.until(lambda: has_claimed(handler, "orders-0", "orders-1"))
        fill(cluster, 5)
        await trio.sleep(20)
        assert len(handler.messages) == 5
        await recreate(cluster, gap)
        await member.ended.wait()
        assert isinstance(claim_failure(member), TopicRecreatedError)
        assert committed(cluster) == {"orders-0": 0, "orders-1": 0}
        await check_reads_all(nursery, cluster, **options)


async def test_fault_47_recreated_topic_is_read_by_staying_members(autojump_clock: MockClock) -> None:
    """A member without partitions takes over that of the failed one, and commits nothing first."""
    async with orders(1) as cluster, deadline() as nursery:
        handlers = [Recorder(), Recorder()]
        members = [await start_member(nursery, cluster, handler, **NEWEST) for handler in handlers]
        await trio.sleep(20)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)
        fill(cluster, 3)
        await trio.sleep(30)
        (failed,) = [member for member in members if member.error is not None]
        assert isinstance(claim_failure(failed), TopicRecreatedError)
        assert sorted(m.offset for handler in handlers for m in handler.messages) == [0, 1, 2]


async def test_fault_47_topic_recreated_while_unsubscribed_is_read(autojump_clock: MockClock) -> None:
    """No claim reads it, so none fails. Its topic id shows that it is new."""
    options = {**NEWEST, "rebalance_strategies": ("cooperative-sticky",)}
    async with orders(2) as cluster, deadline() as nursery:
        cluster.create_topic("others", 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, topics=("orders", "others"), **options)
        await handler.until(lambda: has_claimed(handler, "orders-0", "orders-1", "others-0"))
        member.group.subscribe(["others"])
        await trio.sleep(10)
        await recreate(cluster, 0.0)
        member.group.subscribe(["orders", "others"])
        with trio.fail_after(30.0):
            await handler.received(6)


class Notes(Recorder):
    def __init__(self) -> None:
        super().__init__(self.note)

    async def note(self, session: Session, claim: Claim, message: Message) -> None:
        session.mark_message(message, f"landed to {message.offset}")


async def test_recreated_topic_keeps_a_commit_with_metadata(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Notes()
        member = await start_member(nursery, cluster, handler, **NEWEST)
        await handler.until(lambda: has_claimed(handler, "orders-0", "orders-1"))
        fill(cluster, 5, 0)
        await trio.sleep(20)
        await recreate(cluster, 0.0)
        await member.ended.wait()
        assert committed(cluster) == {"orders-1": 0}, "the other partition has no mark with metadata"


def metadata_of(topic_id: int | None) -> ClusterMetadata:
    partitions = {0: PartitionMetadata(0), 1: PartitionMetadata(0)}
    return ClusterMetadata(
        topics={
            "orders": TopicMetadata(
                "orders", ErrorCode.NONE, partitions, None if topic_id is None else uuid.UUID(int=topic_id)
            )
        }
    )


@pytest.mark.parametrize(
    ("ids", "is_new"),
    [((1, 2), True), ((1, 1), False), ((1, None, 2), True), ((None, 1), False), ((None, None), False)],
)
def test_partitions_of_a_topic_with_another_id_are_new(ids: tuple[int | None, ...], is_new: bool) -> None:
    growth = Growth()
    for topic_id in ids:
        growth.update(metadata_of(topic_id))
    assert growth.is_new(TopicPartition("orders", 0)) is is_new
