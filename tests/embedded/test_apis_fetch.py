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
    """A client of broker 0 with a fetch session. Its requests always name topics by name here."""

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
        gone = [
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
            forgotten_topics_data=gone,
        )
        return self.kit.ask(wanted, self.node_id)

    def fetch(self, *arguments: Any, **options: Any) -> Any:
        """Return the response, which must not be held. The next fetch is the next one of the session."""
        (answer,) = self.ask(*arguments, **options)
        return self.take(answer)

    def take(self, answer: Any) -> Any:
        if answer.error_code == ErrorCode.NONE:
            self.epoch = self.epoch + 1 if answer.session_id else 0
            self.session_id = answer.session_id
        return answer


def told(answer: Any) -> list[tuple[int, int]]:
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
    def test_only_news_is_told_and_what_is_quiet_is_not(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        first = reader.fetch(ALL)
        assert (first.session_id > 0, told(first)) == (True, [(0, 0), (1, 0), (2, 0)])
        assert told(reader.fetch()) == []
        kit.append("orders", 1, b"a")
        answer = reader.fetch()
        assert (told(answer), values(reads(answer)[0].records)) == ([(1, 0)], [b"a"])
        assert (answer.session_id, told(reader.fetch({("orders", 1): 1}))) == (first.session_id, [])

    def test_what_is_not_moved_on_is_told_again(self, kit: ApiKit, version: int) -> None:
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
        assert told(reader.take(answers.pop())) == [(2, 0)]

    def test_held_fetch_without_news_is_answered_with_nothing(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        answers = reader.ask(max_wait=30)
        kit.sleep(30)
        assert told(answers.pop()) == []

    def test_forgotten_partition_is_not_read(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        answers = reader.ask(None, {"orders": [1]}, max_wait=30)
        kit.append("orders", 1, b"a")
        assert answers == []
        kit.append("orders", 0, b"b")
        assert told(answers.pop()) == [(0, 0)]

    def test_unknown_or_out_of_order_session_refuses_the_fetch(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        reader.epoch = 7
        answer = reader.fetch(ALL)
        assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
        reader.session_id += 1
        answer = reader.fetch(ALL)
        assert (answer.error_code, told(answer)) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])

    def test_broker_that_starts_again_has_forgotten_it(self, kit: ApiKit, version: int) -> None:
        reader = Reader(kit, version)
        reader.fetch(ALL)
        node = kit.cluster.node(0)
        kit.cluster.node_down(0, kit.now)
        kit.cluster.node_up(node, kit.now)
        assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_small_answers_give_each_partition_its_turn(self, kit: ApiKit, version: int) -> None:
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
        assert told(reader.take(answer)) == [(number, ErrorCode.KAFKA_STORAGE_ERROR) for number in range(3)]
        assert told(reader.fetch()) == [(0, 0), (1, 0), (2, 0)], "that the error has gone is news"


def test_fetch_without_a_session_is_told_everything_every_time(kit: ApiKit) -> None:
    reader = Reader(kit)
    for _ in range(2):
        reader.epoch = -1
        answer = reader.fetch(ALL)
        assert (answer.session_id, told(answer)) == (0, [(0, 0), (1, 0), (2, 0)])


def test_no_slots_no_sessions() -> None:
    kit = ApiKit({"orders": 3}, settings=BrokerSettings(fetch_session_slots=0))
    reader = Reader(kit)
    assert [reader.fetch(ALL).session_id for _ in range(2)] == [0, 0]


def test_sessions_are_a_brokers_own() -> None:
    kit = ApiKit({"orders": 2}, brokers=2)
    reader = Reader(kit)
    reader.fetch({("orders", 0): 0})
    reader.node_id = 1
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class TestUnknown:
    def test_it_comes_last_and_does_not_end_the_wait(self, kit: ApiKit) -> None:
        answers = Reader(kit).ask({("orders", 9): 0, ("nowhere", 0): 0, ("orders", 0): 0}, max_wait=30)
        kit.sleep(29)
        assert answers == []
        kit.append("orders", 0, b"a")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told(answers.pop()) == [(0, 0), (9, unknown), (0, unknown)]

    def test_alone_it_is_told_at_once(self, kit: ApiKit) -> None:
        answer = Reader(kit).fetch({("orders", 9): 0}, max_wait=30)
        assert told(answer) == [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


class TestTopicIds:
    def test_answers_name_topics_by_id(self, kit: ApiKit) -> None:
        kit.append("orders", 0, b"a")
        answer = Reader(kit, BY_ID).fetch({("orders", 0): 0})
        (topic,) = answer.responses
        assert (topic.topic_id, values(topic.partitions[0].records)) == (kit.cluster.topics.topic("orders").id, [b"a"])

    def test_id_that_nobody_has_is_unknown(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        reader.ids["gone"] = uuid.UUID(int=1)
        answer = reader.fetch({("gone", 0): 0}, max_wait=30)
        assert (told(answer), answer.responses[0].topic_id) == ([(0, ErrorCode.UNKNOWN_TOPIC_ID)], uuid.UUID(int=1))

    def test_recreated_topic_is_another_topic_for_fetches(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        reader.fetch(ALL)
        answers = reader.ask(max_wait=30)
        kit.cluster.topics.delete("orders")
        kit.cluster.create_topic("orders", 3)
        kit.append("orders", 0, b"a")
        inconsistent = [(number, ErrorCode.INCONSISTENT_TOPIC_ID) for number in range(3)]
        assert told(reader.take(answers.pop())) == inconsistent
        assert told(reader.fetch()) == inconsistent
        assert told(Reader(kit, BY_ID).fetch(ALL)) == [(0, 0), (1, 0), (2, 0)], "its new id is good"

    def test_deleted_topic_is_unknown_by_name_and_by_id(self, kit: ApiKit) -> None:
        reader, newcomer = Reader(kit, BY_ID), Reader(kit, BY_ID)
        reader.fetch(ALL)
        kit.cluster.delete_topic("orders", kit.now)
        assert {code for _, code in told(reader.fetch())} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {code for _, code in told(newcomer.fetch(ALL))} == {ErrorCode.UNKNOWN_TOPIC_ID}

    def test_by_name_a_topic_made_anew_is_the_same(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_NAME)
        reader.fetch(ALL)
        kit.cluster.delete_topic("orders", kit.now)
        kit.cluster.create_topic("orders", 3)
        assert {code for _, code in told(reader.fetch({("orders", 0): 0}))} <= {ErrorCode.NONE}

    def test_session_is_of_one_kind(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        reader.fetch(ALL)
        reader.version = BY_NAME
        assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_id_unknown_at_first_is_found_out_later_in_a_session(self, kit: ApiKit) -> None:
        reader = Reader(kit, BY_ID)
        # As when a broker hears of a topic later than its clients do.
        topic = kit.cluster.topics.delete("orders")
        assert {code for _, code in told(reader.fetch({("orders", 0): 0}))} == {ErrorCode.UNKNOWN_TOPIC_ID}
        kit.cluster.topics._topics["orders"] = kit.cluster.topics._by_id[topic.id] = topic
        assert told(reader.fetch()) == [(0, 0)]


class TestLeaders:
    """The new leader in error responses (KIP-951)."""

    def kit(self) -> ApiKit:
        kit = ApiKit({"orders": 1}, brokers=2, settings=BrokerSettings(racks={1: "r1"}, replication_factor=1))
        kit.cluster.move_leader("orders", 0, 1, kit.now)
        return kit

    def test_who_asks_the_wrong_broker_is_told_the_right_one(self) -> None:
        answer = Reader(self.kit(), 16).fetch({("orders", 0): 0})
        (read,) = reads(answer)
        assert (read.current_leader.leader_id, read.current_leader.leader_epoch) == (1, 1)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (1, "broker-1", 9093, "r1")

    def test_who_believes_in_an_old_epoch_is_told_the_new_one(self) -> None:
        (read,) = reads(Reader(self.kit(), 16, node_id=1).fetch({("orders", 0): 0}, leader_epoch=0))
        assert (read.error_code, read.current_leader.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 1)

    def test_older_clients_and_those_who_are_right_are_told_of_none(self) -> None:
        kit = self.kit()
        assert reads(Reader(kit, 15).fetch({("orders", 0): 0}))[0].current_leader is None
        answer = Reader(kit, 16, node_id=1).fetch({("orders", 0): 0})
        assert (reads(answer)[0].current_leader, answer.node_endpoints) == (None, [])


class TestQuiet:
    """Partitions whose consumer is at the log end and was told so before."""

    def test_of_a_thousand_only_the_one_with_news_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert told(answers.pop()) == [(500, 0)]
        assert set(read) == {500}

    @pytest.mark.parametrize("what", ["records", "retention", "epoch", "deleted", "made anew", "reader's offset"])
    def test_what_happens_to_one_is_told(self, what: str) -> None:
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
            case "made anew":
                kit.cluster.delete_topic("orders", kit.now)
                kit.cluster.create_topic("orders", 2)
                kit.append("orders", 0, b"a")
            case _:
                named = {("orders", 0): 0}
        (news,) = told(reader.fetch(named))
        codes = {
            "epoch": ErrorCode.FENCED_LEADER_EPOCH,
            "deleted": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "made anew": ErrorCode.INCONSISTENT_TOPIC_ID,
        }
        assert news == (0, codes.get(what, ErrorCode.NONE))
