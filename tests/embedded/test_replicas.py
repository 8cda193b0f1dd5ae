"""Replicas of a partition: leader, in-sync replicas, lag, and the replica to read from (KIP-392)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from sarameya.embedded.cluster_state import BrokerSettings
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.embedded.replicas import NO_LEADER, ReplicaLag, Replicas
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from tests.embedded.api_kit import ApiKit, batch, request, values

ALL = [0, 1, 2]
RACKS = {0: "a", 1: "b", 2: "b"}


def partition(records: int = 0) -> EmbeddedPartition:
    """Return a partition with the given number of one-record batches, led by broker 0, followed by 1 and 2."""
    log = PartitionLog(TopicPartition("orders", 0))
    for _ in range(records):
        log.append(batch(b"v"))
    return EmbeddedPartition(uuid.UUID(int=1), log, Replicas(ALL, up=ALL))


class TestLeaders:
    def test_first_replica_leads_and_all_that_are_up_are_in_sync(self) -> None:
        replicas = Replicas([2, 0, 1], up=[1, 2])
        assert (replicas.leader, replicas.in_sync) == (2, [2, 1])

    def test_next_in_sync_replica_is_elected(self) -> None:
        replicas = Replicas(ALL, up=ALL)
        replicas.hold(1, ReplicaLag(0, 0, in_sync=False))
        replicas.update_in_sync(ALL)
        assert (replicas.in_sync, replicas.elect([1, 2])) == ([0, 2], 2)

    def test_lagging_replica_is_not_elected(self) -> None:
        replicas = Replicas([0, 1], up=[0, 1])
        replicas.hold(1, ReplicaLag(0, 0, in_sync=False))
        replicas.update_in_sync([0, 1])
        assert replicas.elect([1]) == NO_LEADER
        replicas.lead(NO_LEADER, [1])
        assert (replicas.in_sync, replicas.elect([1]), replicas.elect([0, 1])) == ([0], NO_LEADER, 0)

    def test_leader_without_a_replica_replaces_the_last_replica(self) -> None:
        replicas = Replicas([0, 1], up=ALL)
        replicas.lead(2, ALL)
        assert (replicas.ids, replicas.leader, replicas.in_sync) == ([0, 2], 2, [0, 2])

    def test_every_leader_change_starts_an_epoch_also_to_none(self) -> None:
        found = partition(1)
        found.lead(NO_LEADER, [])
        found.lead(0, [0])
        assert found.log.leader_epoch == 2
        assert found.log.epoch_end(0).end_offset == 1


class TestLags:
    def test_high_watermark_ignores_a_follower_out_of_sync(self) -> None:
        found = partition(3)
        found.hold(1, ReplicaLag(1, 1, in_sync=False), ALL)
        assert (found.replicas.in_sync, found.log.high_watermark) == ([0, 2], 3)

    def test_high_watermark_waits_for_an_in_sync_follower(self) -> None:
        found = partition(3)
        found.hold(1, ReplicaLag(3, 3, in_sync=True), ALL)
        found.log.append(batch(b"v"))
        assert (found.replicas.in_sync, found.log.high_watermark) == (ALL, 3)
        found.release(1, ALL)
        assert found.log.high_watermark == 4

    def test_high_watermark_ignores_a_stopped_follower(self) -> None:
        found = partition(3)
        found.hold(1, ReplicaLag(3, 3, in_sync=True), ALL)
        found.log.append(batch(b"v"))
        found.update_in_sync([0, 2])
        assert (found.replicas.in_sync, found.log.high_watermark) == ([0, 2], 4)

    def test_follower_has_whole_batches_only(self) -> None:
        found = partition()
        found.log.append(batch(b"a", b"b"))
        found.log.append(batch(b"c", b"d"))
        found.hold(1, ReplicaLag(3, 3, in_sync=False), ALL)
        assert found.replicas.lags[1] == ReplicaLag(2, 2, in_sync=False)

    @pytest.mark.parametrize(
        "lag", [ReplicaLag(4, 4, False), ReplicaLag(-1, -1, False), ReplicaLag(2, 3, False), ReplicaLag(2, 2, True)]
    )
    def test_impossible_lag_is_refused(self, lag: ReplicaLag) -> None:
        with pytest.raises(ValueError, match="orders-0"):
            partition(3).hold(1, lag, ALL)

    @pytest.mark.parametrize("node_id", [0, 7])
    def test_only_followers_can_be_held(self, node_id: int) -> None:
        with pytest.raises(Refused, match="does not follow orders-0") as refused:
            partition(3).hold(node_id, ReplicaLag(1, 1, False), ALL)
        assert refused.value.code == ErrorCode.REPLICA_NOT_AVAILABLE

    def test_lagging_leader_truncates_all_replicas(self) -> None:
        found = partition(5)
        found.hold(1, ReplicaLag(3, 2, in_sync=False), ALL)
        found.hold(2, ReplicaLag(4, 4, in_sync=False), ALL)
        found.lead(1, ALL)
        assert (found.log.end_offset, found.log.high_watermark, found.log.leader_epoch) == (3, 3, 1)
        assert (found.replicas.in_sync, found.replicas.lags) == ([1, 0], {2: ReplicaLag(3, 3, in_sync=False)})
        assert found.log.epoch_end(0).end_offset == 3


class TestNearest:
    def nearest(self, replicas: Replicas, rack: str, offset: int = 0) -> int | None:
        return replicas.nearest(rack, RACKS, offset, log_start=0, log_end=5)

    def test_nearest_replica_has_the_highest_id_in_the_rack(self) -> None:
        assert self.nearest(Replicas(ALL, up=ALL), "b") == 2

    @pytest.mark.parametrize("rack", ["a", "nowhere"])
    def test_leader_is_kept_if_it_or_no_replica_is_near(self, rack: str) -> None:
        assert self.nearest(Replicas(ALL, up=ALL), rack) is None

    def test_nearest_replica_is_the_one_with_the_highest_log_end(self) -> None:
        replicas = Replicas(ALL, up=ALL)
        replicas.hold(2, ReplicaLag(3, 3, in_sync=True))
        assert self.nearest(replicas, "b") == 1
        replicas.hold(1, ReplicaLag(2, 2, in_sync=True))
        assert [self.nearest(replicas, "b", offset) for offset in (2, 3, 4)] == [2, 2, None]

    def test_replica_down_or_out_of_sync_is_not_nearest(self) -> None:
        replicas = Replicas(ALL, up=ALL)
        replicas.hold(2, ReplicaLag(5, 5, in_sync=False))
        replicas.update_in_sync(ALL)
        assert self.nearest(replicas, "b") == 1
        replicas.update_in_sync([0, 2])
        assert self.nearest(replicas, "b") is None

    def test_leader_answers_fetches_before_the_log_start(self) -> None:
        assert Replicas(ALL, up=ALL).nearest("b", RACKS, 1, log_start=2, log_end=5) is None


class Cluster(ApiKit):
    """orders-0, led by broker 0 in rack a, followed by 1 and 2 in rack b; three batches of one record."""

    def __init__(self, *, rack_aware_reads: bool = True) -> None:
        settings = BrokerSettings(racks=RACKS, rack_aware_reads=rack_aware_reads)
        super().__init__({"orders": 1}, brokers=3, settings=settings)
        for value in (b"a", b"b", b"c"):
            self.append("orders", 0, value)

    def read(self, node_id: int, offset: int = 0, *, rack: str = "", version: int = 12, epoch: int = -1) -> Any:
        (answer,) = self.ask(self.fetch(offset, rack, version, epoch), node_id)
        return answer.responses[0].partitions[0]

    def fetch(self, offset: int, rack: str = "", version: int = 12, epoch: int = -1, max_wait_ms: int = 0) -> Any:
        wanted = {
            "partition": 0,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": epoch,
        }
        return request(
            FetchRequest,
            version,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[{"topic": "orders", "partitions": [wanted]}],
            forgotten_topics_data=[],
            rack_id=rack,
        )

    def hold(self, node_id: int, offset: int, high_watermark: int | None = None, *, in_sync: bool = False) -> None:
        lag = ReplicaLag(offset, offset if high_watermark is None else high_watermark, in_sync)
        self.cluster.hold_replica("orders", 0, node_id, lag, self.now)


class TestReading:
    def test_leader_redirects_a_consumer_to_its_racks_replica(self) -> None:
        cluster = Cluster()
        redirected = cluster.read(0, rack="b")
        assert (redirected.preferred_read_replica, redirected.records, redirected.high_watermark) == (2, b"", 3)
        served = cluster.read(2, rack="b")
        assert (served.preferred_read_replica, values(served.records)) == (-1, [b"a", b"b", b"c"])

    def test_redirection_is_not_held(self) -> None:
        cluster = Cluster()
        assert len(cluster.ask(cluster.fetch(3, "b", max_wait_ms=30_000))) == 1

    @pytest.mark.parametrize("options", [{"rack": "a"}, {"rack": ""}, {"rack": "c"}, {"rack": "b", "version": 10}])
    def test_consumer_without_a_nearer_replica_reads_from_the_leader(self, options: dict[str, Any]) -> None:
        assert values(Cluster().read(0, **options).records) == [b"a", b"b", b"c"]

    def test_leader_redirects_only_with_rack_aware_reads(self) -> None:
        assert values(Cluster(rack_aware_reads=False).read(0, rack="b").records) == [b"a", b"b", b"c"]

    def test_leader_redirects_no_invalid_fetch(self) -> None:
        cluster = Cluster()
        assert cluster.read(0, rack="b", epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert cluster.read(0, 4, rack="b").error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_follower_serves_only_new_fetch_versions(self) -> None:
        cluster = Cluster(rack_aware_reads=False)
        assert values(cluster.read(1).records) == [b"a", b"b", b"c"]
        assert cluster.read(1, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_follower_checks_the_leader_epoch(self) -> None:
        cluster = Cluster()
        cluster.cluster.move_leader("orders", 0, 1, cluster.now)
        codes = [cluster.read(0, version=12, epoch=epoch).error_code for epoch in (0, 1, 2)]
        assert codes == [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH]
        assert cluster.read(0, version=10, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_lagging_follower_serves_only_its_own_log(self) -> None:
        cluster = Cluster()
        cluster.hold(1, 2)
        first, at_end, beyond = (cluster.read(1, offset) for offset in (0, 2, 3))
        assert (values(first.records), first.high_watermark) == ([b"a", b"b"], 2)
        assert (at_end.error_code, at_end.records) == (ErrorCode.NONE, b"")
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values(cluster.read(0, 2).records) == [b"c"]

    def test_follower_serves_up_to_its_own_high_watermark(self) -> None:
        cluster = Cluster()
        cluster.hold(1, 3, 1)
        first, between, beyond = (cluster.read(1, offset) for offset in (0, 2, 4))
        assert (values(first.records), first.high_watermark) == ([b"a"], 1)
        assert (between.error_code, between.records) == (ErrorCode.NONE, b"")
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_leader_returns_only_replicated_records(self) -> None:
        cluster = Cluster()
        cluster.hold(1, 3, in_sync=True)
        cluster.append("orders", 0, b"d")
        read = cluster.read(0, 2)
        assert (values(read.records), read.high_watermark) == ([b"c"], 3)
        ahead = cluster.read(0, 4)
        assert (ahead.error_code, ahead.records) == (ErrorCode.NONE, b"")
        assert cluster.read(0, 5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_held_fetch_is_answered_when_its_follower_catches_up(self) -> None:
        cluster = Cluster()
        cluster.hold(1, 2)
        answers = cluster.ask(cluster.fetch(2, max_wait_ms=30_000), 1)
        cluster.append("orders", 0, b"d")
        assert answers == []
        cluster.cluster.release_replica("orders", 0, 1, cluster.now)
        assert values(answers.pop().responses[0].partitions[0].records) == [b"c", b"d"]

    def test_held_fetch_fails_when_the_leader_moves(self) -> None:
        cluster = Cluster()
        with_epoch = cluster.ask(cluster.fetch(3, epoch=0, max_wait_ms=30_000))
        without_epoch = cluster.ask(cluster.fetch(3, max_wait_ms=30_000))
        cluster.cluster.move_leader("orders", 0, 1, cluster.now)
        assert with_epoch.pop().responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert without_epoch == [], "a follower serves this fetch as well"
        cluster.append("orders", 0, b"d")
        assert values(without_epoch.pop().responses[0].partitions[0].records) == [b"d"]


class TestBrokers:
    def isr(self, cluster: Cluster, node_id: int) -> list[int]:
        answer = cluster.answer(request(MetadataRequest, 12, topics=[{"name": "orders"}]), node_id)
        return list(answer.topics[0].partitions[0].isr_nodes)

    def test_stopped_broker_is_not_in_sync_until_it_returns(self) -> None:
        cluster = Cluster()
        node = cluster.cluster.node(1)
        cluster.cluster.node_down(1, cluster.now)
        assert self.isr(cluster, 0) == [0, 2]
        cluster.cluster.node_up(node, cluster.now)
        assert self.isr(cluster, 0) == [0, 2, 1]

    def test_lagging_replica_leads_only_when_moved_by_hand(self) -> None:
        cluster = Cluster()
        cluster.hold(1, 1)
        cluster.cluster.node_down(0, cluster.now)
        assert cluster.cluster.topics.partition("orders", 0).leader == 2
        cluster.cluster.move_leader("orders", 0, 1, cluster.now)
        assert values(cluster.read(1).records) == [b"a"]
        assert cluster.read(1, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_partition_waits_for_its_last_in_sync_replica(self) -> None:
        cluster = Cluster()
        nodes = [cluster.cluster.node(node_id) for node_id in ALL]
        for node_id in (0, 1, 2):
            cluster.cluster.node_down(node_id, cluster.now)
        leaders = []
        for node in nodes:
            cluster.cluster.node_up(node, cluster.now)
            leaders.append(cluster.cluster.topics.partition("orders", 0).leader)
        assert leaders == [NO_LEADER, NO_LEADER, 2]
        assert self.isr(cluster, 0) == [2, 0, 1]
