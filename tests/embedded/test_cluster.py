"""EmbeddedCluster: its lifetime, its methods in the process, and its controls, as a client sees them."""

from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest, OffsetCommitRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from sarameya.embedded import EmbeddedCluster, Refused
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.errors import ConfigError
from sarameya.model import CommittedOffset, Message, TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, split
from sarameya.protocol.records.compression import Codec
from sarameya.protocol.versions import Api
from tests.embedded.api_kit import request
from tests.embedded.wire_client import connected

ORDERS = TopicPartition("orders", 0)


def memory(topics: dict[str, int] | None = None, **options: Any) -> EmbeddedCluster:
    return EmbeddedCluster({"orders": 2} if topics is None else topics, in_memory=True, **options)


def stored(cluster: EmbeddedCluster, partition: TopicPartition = ORDERS) -> list[Message]:
    data = b"".join(cluster.log(*partition).batches())
    return [message for raw in split(data, partition, 0) for message in decode(raw, partition)]


def fetch(offset: int = 0, max_wait_ms: int = 0) -> Any:
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": "orders", "partitions": partitions}]
    return request(FetchRequest, 12, max_wait_ms=max_wait_ms, min_bytes=1, topics=topics, forgotten_topics_data=[])


async def fetched(cluster: EmbeddedCluster, broker: int = 0, offset: int = 0) -> Any:
    async with connected(cluster, broker) as client:
        return (await client.ask(fetch(offset))).responses[0].partitions[0]


async def two_free_ports() -> int:
    """Return a port that is free together with the next one."""
    while True:
        async with EmbeddedCluster() as probe:
            port = int(probe.bootstrap_servers[0].rsplit(":", 1)[1])
        with suppress(OSError):
            async with EmbeddedCluster(port=port + 1):
                return port


class TestLifetime:
    async def test_brokers_listen_at_ports_in_a_row(self) -> None:
        port = await two_free_ports()
        async with EmbeddedCluster({"orders": 1}, brokers=2, port=port) as cluster:
            assert cluster.bootstrap_servers == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
            async with connected(cluster, 1) as client:
                brokers = (await client.ask(request(MetadataRequest, 12, topics=[]))).brokers
                assert [(b.node_id, b.host, b.port) for b in brokers] == [
                    (0, "127.0.0.1", port),
                    (1, "127.0.0.1", port + 1),
                ]

    async def test_port_in_use_raises_oserror_and_leaves_nothing_open(self) -> None:
        async with EmbeddedCluster() as first:
            port = int(first.bootstrap_servers[0].rsplit(":", 1)[1])
            with pytest.raises(OSError, match="in use"):
                await EmbeddedCluster(brokers=2, port=port).__aenter__()

    async def test_invalid_topic_raises_refused_and_leaves_nothing_open(self) -> None:
        with pytest.raises(Refused, match="no/slash") as caught:
            await EmbeddedCluster({"no/slash": 1}).__aenter__()
        assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    async def test_metadata_has_the_racks(self) -> None:
        async with memory(brokers=2, racks={1: "b"}, replication_factor=1) as cluster, connected(cluster) as client:
            answer = await client.ask(request(MetadataRequest, 12, topics=None))
            assert [broker.rack for broker in answer.brokers] == [None, "b"]
            assert [p.replica_nodes for p in answer.topics[0].partitions] == [[0], [1]]

    @pytest.mark.parametrize(
        "options", [{"racks": {2: "b"}}, {"racks": {0: ""}}, {"replication_factor": 0}, {"replication_factor": 3}]
    )
    def test_invalid_racks_and_replicas_are_a_config_error(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=next(iter(options))):
            memory(brokers=2, **options)

    async def test_same_seed_gives_the_same_ids(self) -> None:
        async def ids(seed: int) -> Any:
            async with memory(seed=seed) as cluster, connected(cluster) as client:
                answer = await client.ask(request(MetadataRequest, 12, topics=None))
                return answer.cluster_id, [topic.topic_id for topic in answer.topics]

        assert await ids(1) == await ids(1) != await ids(2)


class TestRecords:
    async def test_record_without_a_timestamp_gets_the_wall_clock(self) -> None:
        async with memory(wall_clock=lambda: 12.345) as cluster:
            assert cluster.produce("orders", 0, b"v", b"k", (("h", b"x"),)) == 0
            assert cluster.produce("orders", 0, None, timestamp=7) == 1
            first, second = stored(cluster)
            assert (first.key, first.value, first.headers, first.timestamp) == (b"k", b"v", (("h", b"x"),), 12_345)
            assert (second.key, second.value, second.timestamp) == (None, None, 7)

    async def test_many_records_are_split_into_batches_by_size(self) -> None:
        async with memory() as cluster:
            cluster.produce("orders", 0, b"before")
            records = [(b"%d" % n, b"x" * 98) for n in range(10, 20)]
            assert cluster.produce_many("orders", 0, records, codec=Codec.ZSTD, batch_bytes=300) == range(1, 11)
            assert [(m.key, m.value) for m in stored(cluster)[1:]] == records
            assert len(cluster.log("orders", 0).batches()) == 1 + 4
            assert cluster.produce_many("orders", 0, []) == range(11, 11)

    async def test_whole_batch_is_appended(self) -> None:
        async with memory() as cluster:
            cluster.produce("orders", 0, b"before")
            assert cluster.append("orders", 0, build([(1, None, b"a", ()), (2, None, b"b", ())])) == 1
            assert cluster.log("orders", 0).end_offset == 3

    @pytest.mark.parametrize(
        ("topic", "partition", "why"), [("nope", 0, "'nope' does not exist"), ("orders", 2, "there is no partition 2")]
    )
    async def test_unknown_partition_is_refused_by_name(self, topic: str, partition: int, why: str) -> None:
        async with memory() as cluster:
            for use in (cluster.log, lambda t, p: cluster.produce(t, p, b"v")):
                with pytest.raises(Refused, match=why) as caught:
                    use(topic, partition)
                assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def test_topics_are_created_grown_and_deleted(self) -> None:
        async with memory({}) as cluster:
            cluster.create_topic("new", 2)
            cluster.add_partitions("new", 3)
            assert cluster.produce("new", 2, b"v") == 0
            cluster.delete_topic("new")
            with pytest.raises(Refused):
                cluster.log("new", 0)


class TestGroups:
    async def test_commits_and_the_group_state_are_visible(self) -> None:
        async with memory(brokers=2) as cluster:
            assert cluster.committed("g") == {}
            assert cluster.describe_group("g").state is GroupState.DEAD
            partitions = [{"partition_index": 1, "committed_offset": 5, "committed_metadata": "m"}]
            commit = request(
                OffsetCommitRequest,
                8,
                group_id="g",
                member_id="",
                topics=[{"name": "orders", "partitions": partitions}],
            )
            async with connected(cluster) as client:
                node = (await client.ask(request(FindCoordinatorRequest, 3, key="g"))).node_id
            async with connected(cluster, node) as client:
                await client.ask(commit)
            assert cluster.committed("g") == {TopicPartition("orders", 1): CommittedOffset(5, "m")}
            assert cluster.describe_group("g").state is GroupState.EMPTY

    async def test_coordinator_moves_between_brokers(self) -> None:
        heartbeat = request(HeartbeatRequest, 4, group_id="g", generation_id=1, member_id="m")
        async with memory(brokers=2) as cluster:
            for broker in (0, 1, 0):
                cluster.move_coordinator("g", broker)
                async with connected(cluster, broker) as client:
                    assert (await client.ask(request(FindCoordinatorRequest, 3, key="g"))).node_id == broker
                    assert (await client.ask(heartbeat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
                async with connected(cluster, 1 - broker) as client:
                    assert (await client.ask(heartbeat)).error_code == ErrorCode.NOT_COORDINATOR


class TestControls:
    async def test_moved_leader_starts_a_new_epoch(self) -> None:
        async with memory(brokers=2, replication_factor=1) as cluster:
            cluster.produce("orders", 0, b"a")
            cluster.move_leader("orders", 0, 1)
            cluster.produce("orders", 0, b"b")
            assert (await fetched(cluster, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            moved = await fetched(cluster, 1)
            assert [raw.leader_epoch for raw in split(moved.records, ORDERS, 0)] == [0, 1]

    async def test_leader_cannot_move_to_an_unknown_broker(self) -> None:
        async with memory(brokers=2) as cluster:
            with pytest.raises(Refused, match=r"broker 2 is not up \(up: 0, 1\)"):
                cluster.move_leader("orders", 0, 2)

    async def test_fault_is_returned_once_by_any_broker(self) -> None:
        async with memory(brokers=2) as cluster:
            cluster.fail_next(Api.FETCH, ErrorCode.KAFKA_STORAGE_ERROR)
            assert (await fetched(cluster)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await fetched(cluster)).error_code == ErrorCode.NONE

    async def test_truncation_completes_waiting_fetches_but_not_retention(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with memory() as cluster, connected(cluster) as client:
            for value in (b"a", b"b", b"c"):
                cluster.produce("orders", 0, value)
            await client.send(fetch(3, max_wait_ms=30_000))
            await trio.testing.wait_all_tasks_blocked()
            cluster.delete_records("orders", 0, 2)
            assert (await fetched(cluster, offset=1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            await trio.testing.wait_all_tasks_blocked()
            cluster.truncate("orders", 0, 2)
            answer = await client.receive()
            assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert trio.current_time() == 0

    async def test_raw_bytes_are_served_unchanged(self, autojump_clock: trio.testing.MockClock) -> None:
        async with memory() as cluster, connected(cluster) as client:
            await client.send(fetch(max_wait_ms=30_000))
            await trio.testing.wait_all_tasks_blocked()
            cluster.append_raw("orders", 0, b"not a batch", last_offset=4)
            answer = (await client.receive()).responses[0].partitions[0]
            assert (answer.records, answer.high_watermark) == (b"not a batch", 5)
            assert trio.current_time() == 0

    @pytest.mark.parametrize("in_memory", [True, False])
    async def test_broker_stops_and_starts_at_its_address(self, in_memory: bool) -> None:
        async with EmbeddedCluster({"orders": 2}, brokers=2, in_memory=in_memory) as cluster:
            cluster.produce("orders", 0, b"a")
            async with connected(cluster, 0) as client:
                await cluster.stop_broker(0)
                await client.assert_hung_up()
            with pytest.raises(OSError):
                await connected(cluster, 0).__aenter__()
            with pytest.raises(Refused, match="broker 0 is not up"):
                await cluster.stop_broker(0)
            assert (await fetched(cluster, 1)).high_watermark == 1, "the other broker leads its partitions"
            await cluster.start_broker(0)
            with pytest.raises(OSError, match="in use"):
                await cluster.start_broker(0)
            cluster.move_leader("orders", 0, 0)
            assert (await fetched(cluster, 0)).high_watermark == 1

    async def test_only_broker_leads_again_after_a_restart(self) -> None:
        async with memory() as cluster:
            cluster.produce("orders", 0, b"a")
            await cluster.stop_broker(0)
            await cluster.start_broker(0)
            assert (await fetched(cluster)).high_watermark == 1
