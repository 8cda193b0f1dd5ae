"""Controls of what logs and their replicas are like, as a client on the wire meets them. In memory, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster, Refused
from sarameya.model import TopicPartition
from tests.embedded.api_kit import request, values
from tests.embedded.wire_client import connected

ORDERS = TopicPartition("orders", 0)


def fetch(offset: int = 0, *, max_wait_ms: int = 0, epoch: int = -1, rack_id: str = "", isolation: int = 0) -> Any:
    """A fetch of orders-0, of no session."""
    asked = {
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
        topics=[{"topic": "orders", "partitions": [asked]}],
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

    async def test_topic_has_the_replicas_it_is_made_with(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster(brokers=3, in_memory=True) as cluster, connected(cluster) as client:
            cluster.create_topic("orders", 2, replication_factor=2)
            answer = await client.ask(request(MetadataRequest, 12, topics=[{"name": "orders"}]))
            assert [p.replica_nodes for p in answer.topics[0].partitions] == [[0, 1], [1, 2]]
            with pytest.raises(Refused, match="there are 3 brokers"):
                cluster.create_topic("many", replication_factor=4)


class TestTransactions:
    async def test_reader_of_what_is_committed_gets_it_when_it_is(self, autojump_clock: MockClock) -> None:
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

    async def test_markers_go_where_they_are_told_to(self, autojump_clock: MockClock) -> None:
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
            with pytest.raises(Refused, match="has epoch 1, not 0"):
                cluster.end_transaction(7, commit=True)
            assert [cluster.log("orders", partition).end_offset for partition in (0, 1)] == [1, 1]
            cluster.end_transaction(7, commit=True, producer_epoch=1)
            assert cluster.log("orders", 0).open_transactions == []
