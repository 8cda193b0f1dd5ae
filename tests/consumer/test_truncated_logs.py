"""Logs that lose records after these were read (KIP-320), and recreated topics (KIP-516)."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, LogTruncatedError, Session, TopicPartition, TopicRecreatedError
from sarameya.embedded import EmbeddedCluster, apis
from sarameya.embedded.apis import Call
from sarameya.observe import OffsetReset
from sarameya.protocol import versions
from sarameya.protocol.versions import Api
from tests.consumer.kit import on_request, watch_fetches
from tests.group.kit import Recorder, claim_failure, committed, deadline, eventually, fill, orders, start_member

PARTITION = TopicPartition("orders", 0)


class ByBatches(Recorder):
    """Reads and marks batches."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for batch in claim.batches():
            self.messages += batch
            session.mark_batch(batch)
            self._note(None)


async def unclean_election(cluster: EmbeddedCluster, offset: int, leader: int) -> None:
    """Elect a leader that has the log only up to `offset`."""
    cluster.truncate("orders", 0, offset)
    cluster.move_leader("orders", 0, leader)


async def test_truncation_below_the_position_fails_the_claim(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(20)
        await unclean_election(cluster, 15, 1)
        fill(cluster, 20)  # so that the position is in the log again, among other messages
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, LogTruncatedError)
        assert (error.partition, error.offset, error.diverging_offset) == (PARTITION, 20, 15)
        assert handler.offsets("orders", 0) == list(range(20))


async def test_truncation_with_a_policy_reads_from_the_divergence(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="newest")
        await handler.received(20)
        await unclean_election(cluster, 15, 1)
        for i in range(10):
            cluster.produce("orders", 0, b"new %d" % i)
        fill(cluster, 3, 1)
        await handler.received(33)
        assert [m.value for m in handler.messages if m.partition == 0][20:] == [b"new %d" % i for i in range(10)]
        (event,) = member.seen(OffsetReset)
        assert (event.partition, event.before, event.after) == (PARTITION, 20, 15)
        await eventually(lambda: committed(cluster).get("orders-0") == 25)


async def test_second_truncation_before_reading_loses_nothing(autojump_clock: MockClock) -> None:
    """The second truncation is detected by the epoch of the record before the first one."""
    async with orders(1, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await handler.received(20)
        await unclean_election(cluster, 15, 1)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        await unclean_election(cluster, 10, 0)
        for i in range(20):
            cluster.produce("orders", 0, b"new %d" % i)
        await handler.received(40)
        assert [m.value for m in handler.messages[20:]] == [b"new %d" % i for i in range(20)]
        assert [(event.before, event.after) for event in member.seen(OffsetReset)] == [(20, 15), (15, 10)]


@pytest.mark.parametrize("policy", ["newest", "by_duration:PT0.001S"])
async def test_truncation_below_a_looked_up_start_reads_the_divergence(autojump_clock: MockClock, policy: str) -> None:
    async with orders(1, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        options = {"offset_initial": policy, "offset_out_of_range": "oldest"}
        member = await start_member(nursery, cluster, handler, **options)
        await eventually(lambda: committed(cluster).get("orders-0") == 20)
        await unclean_election(cluster, 15, 1)
        fill(cluster, 10)
        await handler.received(10)
        assert handler.offsets("orders", 0) == list(range(15, 25))
        assert [(event.before, event.after) for event in member.seen(OffsetReset)] == [(20, 15)]


async def test_truncation_below_an_unread_start_is_found_by_the_commit(
    autojump_clock: MockClock,
) -> None:
    async with orders(1, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        options = {"offset_initial": "newest", "offset_out_of_range": "oldest"}
        first = await start_member(nursery, cluster, Recorder(), **options)
        await eventually(lambda: committed(cluster).get("orders-0") == 20)
        first.group.close_nowait()
        await first.ended.wait()
        await unclean_election(cluster, 15, 1)
        fill(cluster, 10)
        handler = Recorder()
        await start_member(nursery, cluster, handler, **options)
        await handler.received(10)
        assert handler.offsets("orders", 0) == list(range(15, 25))


async def test_looked_up_start_is_not_validated_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Call] = []
    on_request(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH, requests.append)
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        cluster.move_leader("orders", 0, 1)
        handler = Recorder()
        await start_member(nursery, cluster, handler, offset_initial="oldest")
        await handler.received(20)
        assert not requests


async def test_truncation_above_the_position_is_ignored(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(20)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        await handler.received(25)
        assert handler.offsets("orders", 0) == list(range(25))
        assert not member.seen(OffsetReset)


@pytest.mark.parametrize("reader", [Recorder, ByBatches], ids=["messages", "batches"])
async def test_truncation_while_stopped_is_found_by_the_commits_epoch(
    autojump_clock: MockClock, reader: type[Recorder]
) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        cluster.move_leader("orders", 0, 1)  # so that the epoch is not the first one
        fill(cluster, 20)
        handler = reader()
        member = await start_member(nursery, cluster, handler)
        await handler.received(20)
        await member.close()
        assert cluster.committed("g")[PARTITION].leader_epoch == 1
        await unclean_election(cluster, 15, 0)
        fill(cluster, 20)
        member = await start_member(nursery, cluster, Recorder())
        await member.ended.wait()
        assert isinstance(claim_failure(member), LogTruncatedError)


async def test_partitions_starting_together_are_checked_at_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[int] = []
    handler_of = apis.HANDLERS[Api.OFFSET_FOR_LEADER_EPOCH]

    def answer(call: Call) -> None:
        requests.append(sum(len(topic.partitions) for topic in call.body.topics))
        handler_of.answer(call)

    monkeypatch.setitem(apis.HANDLERS, Api.OFFSET_FOR_LEADER_EPOCH, attrs.evolve(handler_of, answer=answer))
    async with orders(50, brokers=2) as cluster, deadline() as nursery:
        for partition in range(50):
            fill(cluster, 1, partition)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(50)
        await member.close()
        assert not requests
        for partition in range(50):
            cluster.move_leader("orders", partition, 1 - partition % 2)
            fill(cluster, 1, partition)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(50)
        assert requests == [25, 25]


async def test_refused_epoch_check_is_retried_with_backoff(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(20)
        cluster.fail_next(Api.OFFSET_FOR_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, 3)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        await handler.received(25)
        assert not cluster.faults


# -- another topic of the same name ---------------------------------------------------------------------


async def test_recreated_topic_fails_its_claims(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.create_topic("bills", 1)
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, topics=("orders", "bills"))
        await handler.received(20)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)
        fill(cluster, 30)
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, TopicRecreatedError)
        assert (error.partition, error.offset) == (PARTITION, 20)
        assert error.before != error.after
        assert handler.offsets("orders", 0) == list(range(20))


async def test_recreated_topic_starts_at_its_log_start(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        fill(cluster, 20, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1000.0)
        await handler.received(40)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 2)
        fill(cluster, 30)
        await member.ended.wait()
        assert committed(cluster) == {"orders-0": 0, "orders-1": 0}, "the start of the new topic, and no old mark"
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(30)
        assert handler.offsets("orders", 0) == list(range(30))


async def test_recreated_topic_is_detected_without_ids_in_fetches(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.FETCH, versions.VersionRange(4, 12))
    fetches = watch_fetches(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, metadata_max_age=5.0)
        await handler.received(20)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)
        fill(cluster, 20)
        await member.ended.wait()
        assert isinstance(claim_failure(member), TopicRecreatedError)
        assert fetches.versions == {12}


async def test_topic_without_an_id_is_read_by_its_name(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.METADATA, versions.VersionRange(1, 9))
    fetches = watch_fetches(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(20)
        assert fetches.versions == {12}
        await trio.sleep(1)
