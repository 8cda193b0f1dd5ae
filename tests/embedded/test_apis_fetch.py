"""Fetch within a session (KIP-227) and by topic id (KIP-516), on the wire."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from sarameya.embedded.cluster_state import BrokerSettings
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.error_codes import ErrorCode
from tests.embedded.api_kit import ApiKit, request, values

BY_NAME, BY_ID = 12, 17


class Reader:
    """A client with a fetch session. The tests name topics by name, also if its version sends ids."""

    def __init__(self, kit: ApiKit, version: int = BY_NAME, *, node_id: int = 0) -> None:
        self.kit = kit
        self.version = version
        self.node_id = node_id
        self.session_id = 0
        self.epoch = 0
        self.ids: dict[str, uuid.UUID] = {topic.name: topic.id for topic in kit.cluster.topics}

    def ask(
        self,
        named: dict[tuple[str, int], int] | None = None,
        forgotten: dict[str, list[int]] | None = None,
        *,
        max_wait: float = 0,
        max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
    ) -> list[Any]:
        topics = [
            {
                "topic": topic,
                "topic_id": self.ids.get(topic),
                "partitions": [
                    {
                        "partition": number,
                        "fetch_offset": offset,
                        "partition_max_bytes": 1 << 20,
                        "current_leader_epoch": leader_epoch,
                    }
                ],
            }
            for (topic, number), offset in (named or {}).items()
        ]
        forgotten_topics = [
            {"topic": topic, "topic_id": self.ids.get(topic), "partitions": numbers}
            for topic, numbers in (forgotten or {}).items()
        ]
        wanted = request(
            FetchRequest,
            self.version,
            max_wait_ms=int(max_wait * 1000),
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=forgotten_topics,
        )
        return self.kit.ask(wanted, self.node_id)

    def fetch(self, *arguments: Any, **options: Any) -> Any:
        """Return the response, which must not be held, and advance the session."""
        (answer,) = self.ask(*arguments, **options)
        return self.take(answer)

    def take(self, answer: Any) -> Any:
        if answer.error_code == ErrorCode.NONE:
            self.epoch = self.epoch + 1 if answer.session_id else 0
            self.session_id = answer.session_id
        return answer


def partition_errors(answer: Any) -> list[tuple[int, int]]:
    """Return (partition, error) of each partition in a response."""
    return [(read.partition_index, read.error_code) for topic in answer.responses for read in topic.partitions]


def reads(answer: Any) -> list[Any]:
    return [read for topic in answer.responses for read in topic.partitions]


@pytest.fixture
def kit() -> ApiKit:
    return ApiKit({"orders": 3})


ALL = {("orders", number): 0 for number in range(3)}


@pytest.mark.parametrize("version", [7, BY_NAME, BY_ID])
class TestSession:
    def test_response_has_only_changed_partitions(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        first = reader.fetch(ALL)
        assert (first.session_id > 0, partition_errors(first)) == (True, [(0, 0), (1, 0), (2, 0)])
        assert partition_errors(reader.fetch()) == []
        kit.append("orders", 1, b"a")
        answer = reader.fetch()
        assert (partition_errors(answer), values(reads(answer)[0].records)) == ([(1, 0)], [b"a"])
        assert (answer.session_id, partition_errors(reader.fetch({("orders", 1): 1}))) == (first.session_id, [])

    def test_records_are_repeated_until_the_offset_moves(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        kit.append("orders", 0, b"a")
        reader.fetch(ALL)
        assert [values(reads(reader.fetch())[0].records) for _ in range(2)] == [[b"a"], [b"a"]]

    def test_held_fetch_waits_for_any_of_its_partitions(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        answers = reader.ask(max_wait=30)
        kit.sleep(1)
        kit.append("orders", 2, b"a")
        assert partition_errors(reader.take(answers.pop())) == [(2, 0)]

    def test_held_fetch_without_changes_times_out_empty(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        answers = reader.ask(max_wait=30)
        kit.sleep(30)
        assert partition_errors(answers.pop()) == []

    def test_forgotten_partition_is_not_read(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        answers = reader.ask(None, {"orders": [1]}, max_wait=30)
        kit.append("orders", 1, b"a")
        assert answers == []
        kit.append("orders", 0, b"b")
        assert partition_errors(answers.pop()) == [(0, 0)]

    def test_unknown_or_out_of_order_session_refuses_the_fetch(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        reader.epoch = 7
        answer = reader.fetch(ALL)
        assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
        reader.session_id += 1
        answer = reader.fetch(ALL)
        assert (answer.error_code, partition_errors(answer)) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])

    def test_restarted_broker_has_forgotten_the_session(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        node = kit.cluster.node(0)
        kit.cluster.node_down(0, kit.now)
        kit.cluster.node_up(node, kit.now)
        assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_small_responses_serve_partitions_in_turn(self, kit: ApiKit, version: int) -> None:
        for number in range(3):
            for _ in range(3):
                kit.append("orders", number, b"x" * 100)
        reader = Reader(kit, version)
        reader.fetch(ALL, max_bytes=1)
        order = [read.partition_index for _ in range(6) for read in reads(reader.fetch(max_bytes=1)) if read.records]
        assert order == [0, 1, 2, 0, 1, 2]

    def test_refused_fetch_keeps_its_session(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        wanted = request(
            FetchRequest,
            version,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1000,
            session_id=reader.session_id,
            session_epoch=reader.epoch,
            topics=[],
            forgotten_topics_data=[],
        )
        (answer,) = kit.ask(wanted, refusal=ErrorCode.KAFKA_STORAGE_ERROR)
        assert partition_errors(reader.take(answer)) == [(number, ErrorCode.KAFKA_STORAGE_ERROR) for number in range(3)]
        assert partition_errors(reader.fetch()) == [(0, 0), (1, 0), (2, 0)], "the end of the error is a change"


def test_fetch_without_a_session_returns_all_partitions(kit: ApiKit) -> None:
    reader = Reader(kit)
    for _ in range(2):
        reader.epoch = -1
        answer = reader.fetch(ALL)
        assert (answer.session_id, partition_errors(answer)) == (0, [(0, 0), (1, 0), (2, 0)])


def test_broker_without_session_slots_creates_no_session() -> None:
    kit = ApiKit({"orders": 3}, settings=BrokerSettings(fetch_session_slots=0))
    reader = Reader(kit)
    assert [reader.fetch(ALL).session_id for _ in range(2)] == [0, 0]


def test_session_belongs_to_one_broker() -> None:
    kit = ApiKit({"orders": 2}, brokers=2)
    reader = Reader(kit)
    reader.fetch({("orders", 0): 0})
    reader.node_id = 1
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class TestUnknownPartitions:
    def test_unknown_partition_comes_last_and_keeps_the_wait(self, kit: ApiKit) -> None:
        answers = Reader(kit).ask({("orders", 9): 0, ("nowhere", 0): 0, ("orders", 0): 0}, max_wait=30)
        kit.sleep(29)
        assert answers == []
        kit.append("orders", 0, b"a")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition_errors(answers.pop()) == [(0, 0), (9, unknown), (0, unknown)]

    def test_unknown_partition_alone_is_returned_at_once(self, kit: ApiKit) -> None:
        answer = Reader(kit).fetch({("orders", 9): 0}, max_wait=30)
        assert partition_errors(answer) == [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


class TestTopicIds:
    def test_response_names_topics_by_id(self, kit: ApiKit) -> None:
        kit.append("orders", 0, b"a")
        answer = Reader(kit, BY_ID).fetch({("orders", 0): 0})
        (topic,) = answer.responses
        assert (topic.topic_id, values(topic.partitions[0].records)) == (kit.cluster.topics.topic("orders").id, [b"a"])

    def test_unknown_topic_id_is_an_error(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        reader.ids["gone"] = uuid.UUID(int=1)
        answer = reader.fetch({("gone", 0): 0}, max_wait=30)
        assert (partition_errors(answer), answer.responses[0].topic_id) == (
            [(0, ErrorCode.UNKNOWN_TOPIC_ID)],
            uuid.UUID(int=1),
        )

    def test_recreated_topic_is_another_topic_for_fetches(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        reader.fetch(ALL)
        answers = reader.ask(max_wait=30)
        kit.cluster.topics.delete("orders")
        kit.cluster.create_topic("orders", 3)
        kit.append("orders", 0, b"a")
        inconsistent = [(number, ErrorCode.INCONSISTENT_TOPIC_ID) for number in range(3)]
        assert partition_errors(reader.take(answers.pop())) == inconsistent
        assert partition_errors(reader.fetch()) == inconsistent
        assert partition_errors(Reader(kit, BY_ID).fetch(ALL)) == [(0, 0), (1, 0), (2, 0)], "its new id is valid"

    def test_deleted_topic_is_unknown_by_name_and_by_id(self, kit: ApiKit) -> None:
        reader, newcomer = Reader(kit, BY_ID), Reader(kit, BY_ID)
        reader.fetch(ALL)
        kit.cluster.delete_topic("orders", kit.now)
        assert {code for _, code in partition_errors(reader.fetch())} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {code for _, code in partition_errors(newcomer.fetch(ALL))} == {ErrorCode.UNKNOWN_TOPIC_ID}

    def test_recreated_topic_requested_by_name_is_served(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_NAME)
        reader.fetch(ALL)
        kit.cluster.delete_topic("orders", kit.now)
        kit.cluster.create_topic("orders", 3)
        assert {code for _, code in partition_errors(reader.fetch({("orders", 0): 0}))} <= {ErrorCode.NONE}

    def test_session_uses_either_names_or_ids(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        reader.fetch(ALL)
        reader.version = BY_NAME
        assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_topic_id_unknown_at_first_is_served_later(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        # A broker may learn of a topic later than its clients.
        topic = kit.cluster.topics.delete("orders")
        assert {code for _, code in partition_errors(reader.fetch({("orders", 0): 0}))} == {ErrorCode.UNKNOWN_TOPIC_ID}
        kit.cluster.topics._topics["orders"] = kit.cluster.topics._by_id[topic.id] = topic
        assert partition_errors(reader.fetch()) == [(0, 0)]


class TestCurrentLeader:
    """The new leader in error responses (KIP-951)."""

    def kit(self) -> ApiKit:
        kit = ApiKit({"orders": 1}, brokers=2, settings=BrokerSettings(racks={1: "r1"}, replication_factor=1))
        kit.cluster.move_leader("orders", 0, 1, kit.now)
        return kit

    def test_wrong_broker_returns_the_leader(self) -> None:
        answer = Reader(self.kit(), 16).fetch({("orders", 0): 0})
        (read,) = reads(answer)
        assert (read.current_leader.leader_id, read.current_leader.leader_epoch) == (1, 1)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (1, "broker-1", 9093, "r1")

    def test_old_leader_epoch_returns_the_new_one(self) -> None:
        (read,) = reads(Reader(self.kit(), 16, node_id=1).fetch({("orders", 0): 0}, leader_epoch=0))
        assert (read.error_code, read.current_leader.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 1)

    def test_leader_is_omitted_for_old_clients_and_without_errors(self) -> None:
        kit = self.kit()
        assert reads(Reader(kit, 15).fetch({("orders", 0): 0}))[0].current_leader is None
        answer = Reader(kit, 16, node_id=1).fetch({("orders", 0): 0})
        assert (reads(answer)[0].current_leader, answer.node_endpoints) == (None, [])


class TestIdlePartitions:
    """Partitions whose consumer is at the log end, as an earlier response has returned."""

    def test_only_the_changed_one_of_a_thousand_partitions_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kit = ApiKit({"orders": 1000})
        reader = Reader(kit, BY_ID)
        reader.fetch({("orders", number): 0 for number in range(1000)})
        read: list[int] = []
        for name in ("read", "readable_bytes"):
            method = getattr(PartitionLog, name)

            def counting(log: PartitionLog, *arguments: Any, method: Any = method, **options: Any) -> Any:
                read.append(log.partition.partition)
                return method(log, *arguments, **options)

            monkeypatch.setattr(PartitionLog, name, counting)
        answers = reader.ask(max_wait=30)
        assert read == []
        kit.append("orders", 500, b"a")
        assert partition_errors(answers.pop()) == [(500, 0)]
        assert set(read) == {500}

    @pytest.mark.parametrize("what", ["records", "retention", "epoch", "deleted", "recreated", "reader's offset"])
    def test_change_of_an_idle_partition_is_returned(self, what: str) -> None:
        kit = ApiKit({"orders": 2}, brokers=2, settings=BrokerSettings(replication_factor=1))
        for node in (0, 1):
            kit.append("orders", node, b"a")
        reader = Reader(kit, BY_ID)
        reader.fetch({("orders", 0): 1}, leader_epoch=0)
        reader.fetch()
        named: dict[tuple[str, int], int] = {}
        match what:
            case "records":
                kit.append("orders", 0, b"b")
            case "retention":
                kit.cluster.topics.partition("orders", 0).log.delete_before(1)
            case "epoch":
                kit.cluster.move_leader("orders", 0, 1, kit.now)
                kit.cluster.move_leader("orders", 0, 0, kit.now)
            case "deleted":
                kit.cluster.delete_topic("orders", kit.now)
            case "recreated":
                kit.cluster.delete_topic("orders", kit.now)
                kit.cluster.create_topic("orders", 2)
                kit.append("orders", 0, b"a")
            case _:
                named = {("orders", 0): 0}
        (change,) = partition_errors(reader.fetch(named))
        codes = {
            "epoch": ErrorCode.FENCED_LEADER_EPOCH,
            "deleted": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "recreated": ErrorCode.INCONSISTENT_TOPIC_ID,
        }
        assert change == (0, codes.get(what, ErrorCode.NONE))
