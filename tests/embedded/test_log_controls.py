"""Controls of logs and replicas, as a client on the wire sees them. In memory, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest
from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster, Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from tests.embedded.api_kit import request, values
from tests.embedded.wire_client import connected

ORDERS = TopicPartition("orders", 0)


def fetch(offset: int = 0, *, max_wait_ms: int = 0, epoch: int = -1, rack_id: str = "", isolation: int = 0) -> Any:
    """Return a fetch of orders-0 without a session."""
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": epoch,
    }
    return request(
        FetchRequest,
        12,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=isolation,
        topics=[{"topic": "orders", "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id=rack_id,
    )


class TestFollowers:
    async def test_follower_is_held_back_and_catches_up(self, autojump_clock: MockClock) -> None:
        async with (
            EmbeddedCluster({"orders": 1}, brokers=2, in_memory=True) as cluster,
            connected(cluster, 1) as client,
        ):
            cluster.produce("orders", 0, b"a")
            cluster.hold_replica("orders", 0, 1)
            cluster.produce("orders", 0, b"b")
            await client.send(fetch(1, max_wait_ms=30_000))
            await trio.testing.wait_all_tasks_blocked()
            cluster.release_replica("orders", 0, 1)
            (read,) = (await client.receive()).responses[0].partitions
            assert (values(read.records), read.high_watermark, trio.current_time()) == ([b"b"], 2, 0.0)

    async def test_consumer_is_sent_to_the_replica_in_its_rack(self, autojump_clock: MockClock) -> None:
        racks = {0: "a", 1: "b"}
        async with (
            EmbeddedCluster({"orders": 1}, brokers=2, racks=racks, rack_aware_reads=True, in_memory=True) as cluster,
            connected(cluster) as leader,
        ):
            cluster.produce("orders", 0, b"a")
            (read,) = (await leader.ask(fetch(0, rack_id="b"))).responses[0].partitions
            assert (read.preferred_read_replica, read.records) == (1, b"")

    async def test_topic_is_created_with_its_replication_factor(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster(brokers=3, in_memory=True) as cluster, connected(cluster) as client:
            cluster.create_topic("orders", 2, replication_factor=2)
            answer = await client.ask(request(MetadataRequest, 12, topics=[{"name": "orders"}]))
            assert [p.replica_nodes for p in answer.topics[0].partitions] == [[0, 1], [1, 2]]
            with pytest.raises(Refused, match="must be 1 to 3, the number of brokers"):
                cluster.create_topic("many", replication_factor=4)


class TestTransactions:
    async def test_read_committed_fetch_waits_for_the_marker(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 2}, in_memory=True) as cluster, connected(cluster) as client:
            cluster.produce_transactional("orders", 0, b"a", producer_id=7)
            cluster.produce_transactional("orders", 1, b"b", producer_id=7)
            cluster.produce_transactional("orders", 1, b"c", producer_id=8)
            await client.send(fetch(max_wait_ms=30_000, isolation=1))
            await trio.testing.wait_all_tasks_blocked()
            assert cluster.end_transaction(7, commit=False) == {ORDERS: 1, TopicPartition("orders", 1): 2}
            (read,) = (await client.receive()).responses[0].partitions
            (aborted,) = read.aborted_transactions
            assert (aborted.producer_id, aborted.first_offset, read.last_stable_offset) == (7, 0, 2)
            assert cluster.end_transaction(8, commit=True) == {TopicPartition("orders", 1): 3}
            assert cluster.end_transaction(8, commit=True) == {}
            assert trio.current_time() == 0.0

    async def test_markers_are_written_to_the_given_partitions(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 2}, in_memory=True) as cluster:
            for partition in (0, 1):
                cluster.produce_transactional("orders", partition, b"a", producer_id=7)
            assert cluster.end_transaction(7, commit=True, partitions=[("orders", 0)]) == {ORDERS: 1}
            assert cluster.log("orders", 1).open_transactions == [7]
            assert cluster.end_transaction(9, commit=True, partitions=[("orders", 0)]) == {ORDERS: 2}

    async def test_old_epoch_is_fenced_before_anything_is_written(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 2}, in_memory=True) as cluster:
            cluster.produce_transactional("orders", 0, b"a", producer_id=7)
            cluster.produce_transactional("orders", 1, b"a", producer_id=7, producer_epoch=1)
            with pytest.raises(Refused, match="epoch 1 is known"):
                cluster.end_transaction(7, commit=True)
            assert [cluster.log("orders", partition).end_offset for partition in (0, 1)] == [1, 1]
            cluster.end_transaction(7, commit=True, producer_epoch=1)
            assert cluster.log("orders", 0).open_transactions == []


def epoch_end(epoch: int, *, current: int = -1) -> Any:
    partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
    return request(
        OffsetForLeaderEpochRequest, 4, replica_id=-1, topics=[{"topic": "orders", "partitions": [partition]}]
    )


class TestTruncation:
    """Detection of truncated records by a consumer (KIP-320)."""

    async def ends(self, cluster: EmbeddedCluster, broker: int, *epochs: int) -> list[tuple[int, int]]:
        """Return (leader epoch, end offset) for each epoch."""
        async with connected(cluster, broker) as client:
            answers = [(await client.ask(epoch_end(epoch))).topics[0].partitions[0] for epoch in epochs]
        return [(answer.leader_epoch, answer.end_offset) for answer in answers]

    async def test_unclean_election_ends_the_old_epoch_at_the_new_log_end(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 1}, brokers=3, in_memory=True) as cluster:
            for value in (b"a", b"b", b"c"):
                cluster.produce("orders", 0, value)
            cluster.hold_replica("orders", 0, 1, 1)
            cluster.move_leader("orders", 0, 1)
            assert await self.ends(cluster, 1, 0, 1, 2) == [(0, 1), (1, 1), (-1, -1)]
            for value in (b"B", b"C", b"D"):
                cluster.produce("orders", 0, value)
            assert await self.ends(cluster, 1, 0, 1) == [(0, 1), (1, 4)]
            async with connected(cluster, 1) as client:
                # A consumer at offset 3 in epoch 0 could continue, and would not notice the lost records.
                (read,) = (await client.ask(fetch(3))).responses[0].partitions
                assert values(read.records) == [b"D"]
                (read,) = (await client.ask(fetch(3, epoch=0))).responses[0].partitions
                assert read.error_code == ErrorCode.FENCED_LEADER_EPOCH

    async def test_log_truncated_before_an_election_ends_its_epoch(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 1}, brokers=2, in_memory=True) as cluster:
            for value in (b"a", b"b", b"c"):
                cluster.produce("orders", 0, value)
            cluster.truncate("orders", 0, 1)
            cluster.move_leader("orders", 0, 1)
            cluster.produce("orders", 0, b"B")
            assert await self.ends(cluster, 1, 0, 1) == [(0, 1), (1, 2)]

    async def test_completely_truncated_epochs_are_forgotten(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 1}, brokers=2, in_memory=True) as cluster:
            for broker in (0, 1, 0, 1):  # epochs 0 to 3, a record each
                cluster.move_leader("orders", 0, broker)
                cluster.produce("orders", 0, b"v")
            cluster.hold_replica("orders", 0, 0, 1)
            cluster.move_leader("orders", 0, 0)
            assert await self.ends(cluster, 0, 0, 1, 2, 3, 4) == [(0, 1), (0, 1), (0, 1), (0, 1), (4, 1)]

    async def test_crashed_broker_restarts_truncated_in_a_later_epoch(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 1}, in_memory=True) as cluster:
            for value in (b"a", b"b", b"c"):
                cluster.produce("orders", 0, value)
            await cluster.stop_broker(0)
            cluster.truncate("orders", 0, 1)
            await cluster.start_broker(0)
            assert cluster.log("orders", 0).leader_epoch == 2, "once for no leader, once for the new one"
            assert await self.ends(cluster, 0, 0, 1, 2) == [(0, 1), (0, 1), (2, 1)]
            async with connected(cluster) as client:
                for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.OFFSET_OUT_OF_RANGE)):
                    (read,) = (await client.ask(fetch(3, epoch=epoch))).responses[0].partitions
                    assert read.error_code == code

    async def test_held_fetch_beyond_the_new_end_fails_at_once(self, autojump_clock: MockClock) -> None:
        async with (
            EmbeddedCluster({"orders": 1}, brokers=2, in_memory=True) as cluster,
            connected(cluster, 1) as client,
        ):
            for value in (b"a", b"b", b"c"):
                cluster.produce("orders", 0, value)
            await client.send(fetch(3, max_wait_ms=30_000))
            await trio.testing.wait_all_tasks_blocked()
            cluster.hold_replica("orders", 0, 1, 1)
            (read,) = (await client.receive()).responses[0].partitions
            assert (read.error_code, trio.current_time()) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0.0)
