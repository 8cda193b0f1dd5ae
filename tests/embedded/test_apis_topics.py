"""Metadata, creation and deletion of topics, ListOffsets and OffsetForLeaderEpoch."""

import uuid
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from sarameya.embedded.cluster_state import BrokerNode, BrokerSettings
from sarameya.embedded.replicas import ReplicaLag
from sarameya.error_codes import ErrorCode
from tests.embedded.api_kit import ApiKit, batch, request


@pytest.fixture
def kit() -> ApiKit:
    return ApiKit({"orders": 4}, brokers=3)


def metadata(*names: str | None, version: int = 12, topic_id: uuid.UUID | None = None, **fields: Any) -> Any:
    topics = [{"name": name, "topic_id": topic_id} for name in names]
    return request(MetadataRequest, version, topics=topics, **fields)


def creatable(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [],
    } | fields


class TestMetadata:
    def test_metadata_has_brokers_and_leaders(self, kit: ApiKit) -> None:
        answer = kit.answer(metadata("orders"))
        assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [
            (0, "broker-0", 9092),
            (1, "broker-1", 9093),
            (2, "broker-2", 9094),
        ]
        assert (answer.cluster_id, answer.controller_id) == (kit.cluster.cluster_id, 0)
        (topic,) = answer.topics
        assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 0), (1, 1), (2, 2), (3, 0)]
        assert [p.replica_nodes for p in topic.partitions] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]

    def test_metadata_has_the_configured_racks_and_replicas(self) -> None:
        settings = BrokerSettings(racks={0: "a", 2: "c"}, replication_factor=2)
        kit = ApiKit({"orders": 4}, brokers=3, settings=settings)
        answer = kit.answer(metadata("orders"))
        assert [broker.rack for broker in answer.brokers] == ["a", None, "c"]
        assert [p.replica_nodes for p in answer.topics[0].partitions] == [[0, 1], [1, 2], [2, 0], [0, 1]]

    def test_leader_is_always_a_replica(self) -> None:
        kit = ApiKit({"orders": 3}, brokers=3, settings=BrokerSettings(replication_factor=1))
        kit.cluster.move_leader("orders", 0, 2, kit.now)
        partition = kit.answer(metadata("orders")).topics[0].partitions[0]
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (2, [2], [2])

    def test_partition_without_its_only_replica_has_no_leader(self) -> None:
        kit = ApiKit({"orders": 2}, brokers=2, settings=BrokerSettings(replication_factor=1))
        kit.cluster.node_down(1, kit.now)
        partition = kit.answer(metadata("orders")).topics[0].partitions[1]
        assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [1])

    def test_null_or_empty_in_version_zero_requests_every_topic(self, kit: ApiKit) -> None:
        for all_topics in (request(MetadataRequest, 12, topics=None), request(MetadataRequest, 0, topics=[])):
            assert [topic.name for topic in kit.answer(all_topics).topics] == ["orders"]
        assert kit.answer(request(MetadataRequest, 12, topics=[])).topics == []

    def test_offsets_topic_is_internal(self, kit: ApiKit) -> None:
        kit.cluster.offsets_partition("any group")
        (topic,) = kit.answer(metadata("__consumer_offsets")).topics
        assert (topic.is_internal, len(topic.partitions)) == (True, 50)

    def test_topic_is_found_by_its_id(self, kit: ApiKit) -> None:
        topic_id = kit.cluster.topics.topic("orders").id
        (topic,) = kit.answer(metadata(None, topic_id=topic_id)).topics
        assert (topic.name, topic.topic_id, topic.error_code) == ("orders", topic_id, ErrorCode.NONE)
        (topic,) = kit.answer(metadata(None, topic_id=uuid.uuid4())).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_unknown_topic_is_created_if_broker_and_client_allow_it(self) -> None:
        def fetch_metadata(broker_allows: bool, client_allows: bool) -> tuple[int, int]:
            kit = ApiKit(settings=BrokerSettings(auto_create_topics=broker_allows, default_partitions=3))
            (topic,) = kit.answer(metadata("new", allow_auto_topic_creation=client_allows)).topics
            return topic.error_code, len(topic.partitions)

        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert fetch_metadata(True, True) == (ErrorCode.NONE, 3)
        assert [fetch_metadata(True, False), fetch_metadata(False, True)] == [unknown, unknown]

    def test_topic_with_an_invalid_name_is_not_created(self) -> None:
        kit = ApiKit(settings=BrokerSettings(auto_create_topics=True))
        (topic,) = kit.answer(metadata("no/slash", allow_auto_topic_creation=True)).topics
        assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_stopped_broker_is_an_offline_replica(self, kit: ApiKit) -> None:
        kit.cluster.node_down(0, kit.now)
        answer = kit.answer(metadata("orders"), node_id=1)
        assert [broker.node_id for broker in answer.brokers] == [1, 2]
        partitions = answer.topics[0].partitions
        assert [p.leader_id for p in partitions] == [1, 1, 2, 1]
        assert [p.leader_epoch for p in partitions] == [1, 0, 0, 1]
        assert [p.isr_nodes for p in partitions] == [[1, 2], [1, 2], [2, 1], [1, 2]]
        assert {tuple(p.offline_replicas) for p in partitions} == {(0,)}

    def test_partitions_have_no_leader_without_a_broker(self) -> None:
        kit = ApiKit({"orders": 1})
        kit.cluster.node_down(0, kit.now)
        (partition,) = kit.answer(metadata("orders")).topics[0].partitions
        assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


class TestCreateTopics:
    def create(self, kit: ApiKit, *topics: dict[str, Any], **fields: Any) -> list[tuple[int, int]]:
        answer = kit.answer(request(CreateTopicsRequest, 7, topics=list(topics), timeout_ms=1, **fields))
        return [(topic.error_code, topic.num_partitions) for topic in answer.topics]

    def test_topic_gets_the_requested_or_default_partitions(self, kit: ApiKit) -> None:
        assert self.create(kit, creatable("a", 5), creatable("b", -1, -1)) == [(0, 5), (0, 1)]
        assert len(kit.cluster.topics.topic("a").partitions) == 5

    def test_topic_gets_the_requested_or_default_replicas(self, kit: ApiKit) -> None:
        self.create(kit, creatable("a", 2, 2), creatable("b", 1, -1))
        replicas = {name: [p.replicas.ids for p in kit.cluster.topics.topic(name).partitions] for name in ("a", "b")}
        assert replicas == {"a": [[0, 1], [1, 2]], "b": [[0, 1, 2]]}
        self.create(kit, creatable("c", 1, 1))
        kit.cluster.grow_topic("c", 2)
        assert [p.replicas.ids for p in kit.cluster.topics.topic("c").partitions] == [[0], [1]]

    def test_assignment_defines_the_number_of_partitions(self, kit: ApiKit) -> None:
        assignments = [{"partition_index": n, "broker_ids": [0]} for n in range(3)]
        assert self.create(kit, creatable("a", -1, -1, assignments=assignments)) == [(0, 3)]

    def test_validate_only_creates_nothing(self, kit: ApiKit) -> None:
        assert self.create(kit, creatable("a", 5), validate_only=True) == [(0, 5)]
        assert kit.cluster.topics.get("a") is None

    @pytest.mark.parametrize(
        ("topic", "code"),
        [
            (creatable("orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
            (creatable("no/slash"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable("a", 0), ErrorCode.INVALID_PARTITIONS),
            (creatable("a", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
            (creatable("a", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        ],
    )
    def test_invalid_topic_is_refused(self, kit: ApiKit, topic: dict[str, Any], code: ErrorCode) -> None:
        assert self.create(kit, topic) == [(code, -1)]

    def test_topic_named_twice_is_not_created(self, kit: ApiKit) -> None:
        assert self.create(kit, creatable("a"), creatable("a")) == [(ErrorCode.INVALID_REQUEST, -1)] * 2
        assert kit.cluster.topics.get("a") is None


class TestGrowAndDelete:
    def grow(self, kit: ApiKit, name: str, count: int, **fields: Any) -> int:
        topics = [{"name": name, "count": count, "assignments": None}]
        answer = kit.answer(request(CreatePartitionsRequest, 3, topics=topics, timeout_ms=1, **fields))
        return int(answer.results[0].error_code)

    def test_topic_grows_and_keeps_its_records(self, kit: ApiKit) -> None:
        kit.append("orders", 0, b"a")
        assert self.grow(kit, "orders", 6) == ErrorCode.NONE
        assert [p.leader for p in kit.cluster.topics.topic("orders").partitions] == [0, 1, 2, 0, 1, 2]
        assert kit.cluster.topics.partition("orders", 0).log.end_offset == 1

    @pytest.mark.parametrize(
        ("name", "count", "code"),
        [
            ("orders", 4, ErrorCode.INVALID_PARTITIONS),
            ("orders", 2**31 - 1, ErrorCode.INVALID_PARTITIONS),
            ("unknown", 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("__consumer_offsets", 60, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ],
    )
    def test_invalid_growth_is_refused(self, kit: ApiKit, name: str, count: int, code: ErrorCode) -> None:
        kit.cluster.offsets_partition("g")
        assert self.grow(kit, name, count) == code

    def test_validate_only_grows_nothing(self, kit: ApiKit) -> None:
        assert self.grow(kit, "orders", 6, validate_only=True) == ErrorCode.NONE
        assert len(kit.cluster.topics.topic("orders").partitions) == 4

    def test_recreated_topic_has_another_id(self, kit: ApiKit) -> None:
        before = kit.cluster.topics.topic("orders").id
        answer = kit.answer(request(DeleteTopicsRequest, 5, topic_names=["orders", "unknown"], timeout_ms=1))
        assert [topic.error_code for topic in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert kit.cluster.create_topic("orders", 1).id != before

    def test_topic_is_deleted_by_its_id(self, kit: ApiKit) -> None:
        wanted = [{"name": None, "topic_id": kit.cluster.topics.topic("orders").id}]
        answer = kit.answer(request(DeleteTopicsRequest, 6, topics=wanted, timeout_ms=1))
        assert [(topic.name, topic.error_code) for topic in answer.responses] == [("orders", 0)]
        answer = kit.answer(request(DeleteTopicsRequest, 6, topics=wanted, timeout_ms=1))
        assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_offsets_topic_cannot_be_deleted(self, kit: ApiKit) -> None:
        kit.cluster.offsets_partition("g")
        answer = kit.answer(request(DeleteTopicsRequest, 5, topic_names=["__consumer_offsets"], timeout_ms=1))
        assert answer.responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


class TestDescribeConfigs:
    def describe(self, kit: ApiKit, resource_type: int, name: str, keys: list[str] | None = None) -> Any:
        resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
        (result,) = kit.answer(request(DescribeConfigsRequest, 4, resources=[resource])).results
        return result.error_code, {config.name: config.value for config in result.configs}

    def test_supported_configs_are_returned(self) -> None:
        kit = ApiKit({"orders": 1}, settings=BrokerSettings(max_batch_size=500, auto_create_topics=True))
        assert self.describe(kit, 2, "orders") == (ErrorCode.NONE, {"max.message.bytes": "500"})
        for name in ("0", ""):
            code, configs = self.describe(kit, 4, name)
            assert (code, configs["message.max.bytes"], configs["auto.create.topics.enable"]) == (0, "500", "true")
        assert self.describe(kit, 4, "0", ["num.partitions", "other"]) == (ErrorCode.NONE, {"num.partitions": "1"})

    @pytest.mark.parametrize(
        ("resource_type", "name", "code"),
        [
            (2, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (4, "7", ErrorCode.INVALID_REQUEST),
            (8, "0", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_resource_without_configuration_is_refused(
        self, kit: ApiKit, resource_type: int, name: str, code: ErrorCode
    ) -> None:
        assert self.describe(kit, resource_type, name) == (code, {})


class TestListOffsets:
    @pytest.fixture
    def kit(self) -> ApiKit:
        """Return a log of offsets 2 to 4 with timestamps 20, 40 and 30 ms, the last in epoch 1, led by broker 1."""
        kit = ApiKit({"orders": 1}, brokers=2)
        partition = kit.cluster.topics.partition("orders", 0)
        partition.log.append(batch(b"", b"", timestamp=10))
        for timestamp in (20, 40):
            partition.log.append(batch(b"", timestamp=timestamp))
        kit.cluster.move_leader("orders", 0, 1, kit.now)
        partition.log.append(batch(b"", timestamp=30))
        partition.log.delete_before(2)
        return kit

    def list_offset(
        self, kit: ApiKit, timestamp: int, node_id: int = 1, *, version: int = 7, **fields: int
    ) -> tuple[int, int, int, int]:
        partitions = [{"partition_index": 0, "timestamp": timestamp, **fields}]
        topics = [{"name": "orders", "partitions": partitions}]
        (topic,) = kit.answer(request(ListOffsetsRequest, version, isolation_level=0, topics=topics), node_id).topics
        (partition,) = topic.partitions
        return partition.error_code, partition.offset, partition.timestamp, partition.leader_epoch

    @pytest.mark.parametrize(
        ("timestamp", "found"),
        [
            (-1, (0, 5, -1, 1)),
            (-2, (0, 2, -1, 0)),
            (-3, (0, 3, 40, 0)),
            (0, (0, 2, 20, 0)),
            (21, (0, 3, 40, 0)),
            (41, (0, -1, -1, -1)),
        ],
        ids=["latest", "earliest", "max_timestamp", "before_all", "between", "after_all"],
    )
    def test_offset_for_each_kind_of_timestamp(
        self, kit: ApiKit, timestamp: int, found: tuple[int, int, int, int]
    ) -> None:
        assert self.list_offset(kit, timestamp) == found

    def test_wrong_leader_and_old_epoch_are_refused(self, kit: ApiKit) -> None:
        assert self.list_offset(kit, -1, node_id=0)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert self.list_offset(kit, -1, current_leader_epoch=0)[0] == ErrorCode.FENCED_LEADER_EPOCH

    def test_new_leader_without_a_high_watermark_refuses_list_offsets(self, kit: ApiKit) -> None:
        log = kit.cluster.topics.partition("orders", 0).log
        kit.cluster.hold_replica("orders", 0, 0, ReplicaLag(5, 5, in_sync=True), kit.now)
        kit.append("orders", 0, b"beyond the high watermark")
        assert (log.high_watermark, self.list_offset(kit, -1)) == (5, (0, 5, -1, 1))
        kit.cluster.node_up(BrokerNode(2, "broker-2", 9094), kit.now)
        kit.cluster.topics.partition("orders", 0).replicas.ids.append(2)
        kit.cluster.move_leader("orders", 0, 2, kit.now)
        assert log.leader_epoch_start == 6
        assert [self.list_offset(kit, t, 2)[0] for t in (-1, 500)] == [ErrorCode.OFFSET_NOT_AVAILABLE] * 2
        assert self.list_offset(kit, -1, 2, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
        assert [self.list_offset(kit, t, 2)[:2] for t in (-2, 21)] == [(0, 2), (0, 3)], (
            "offsets that are certain are returned"
        )
        kit.append("orders", 0, b"c")
        kit.cluster.release_replica("orders", 0, 0, kit.now)
        assert self.list_offset(kit, -1, 2)[:2] == (0, 7)

    def test_broken_bytes_in_the_log_are_a_corrupt_message(self, kit: ApiKit) -> None:
        kit.cluster.topics.partition("orders", 0).log.append_raw(b"\xff" * 100, last_offset=9)
        assert self.list_offset(kit, 41)[0] == ErrorCode.CORRUPT_MESSAGE
        assert self.list_offset(kit, -1)[:2] == (ErrorCode.NONE, 10)

    @pytest.mark.parametrize(("epoch", "end"), [(0, (0, 4)), (1, (1, 5)), (2, (-1, -1))])
    def test_end_offset_of_each_epoch(self, kit: ApiKit, epoch: int, end: tuple[int, int]) -> None:
        partitions = [{"partition": 0, "leader_epoch": epoch, "current_leader_epoch": 1}]
        topics = [{"topic": "orders", "partitions": partitions}]
        (topic,) = kit.answer(request(OffsetForLeaderEpochRequest, 4, topics=topics), 1).topics
        assert [(p.leader_epoch, p.end_offset) for p in topic.partitions] == [end]
