"""Produce and Fetch: stored records, returned records, and the time at which a held fetch is answered."""

import struct
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from sarameya.embedded.cluster_state import BrokerSettings
from sarameya.error_codes import ErrorCode
from sarameya.errors import ProtocolError
from sarameya.protocol.records.batch_codec import build, crc32c
from sarameya.protocol.records.compression import Codec
from tests.embedded.api_kit import WALL_TIME, ApiKit, batch, request, values


@pytest.fixture
def kit() -> ApiKit:
    return ApiKit({"orders": 2}, brokers=2, settings=BrokerSettings(replication_factor=1))


def produce(records: bytes | None, partition: int = 0, *, topic: str = "orders", acks: int = -1) -> Any:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return request(ProduceRequest, 9, acks=acks, timeout_ms=1000, topic_data=data)


def produced(answer: Any) -> tuple[int, int]:
    """Return (error, base offset) of the only partition in a response."""
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    return partition.error_code, partition.base_offset


def fetch(
    *offsets: int,
    max_wait: float = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    version: int = 12,
    topic: str = "orders",
    **fields: int,
) -> Any:
    """Return a fetch of partitions 0, 1, ... of one topic from the given offsets."""
    partitions = [
        {"partition": number, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes, **fields}
        for number, offset in enumerate(offsets)
    ]
    return request(
        FetchRequest,
        version,
        max_wait_ms=int(max_wait * 1000),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[{"topic": topic, "partitions": partitions}],
        forgotten_topics_data=[],
    )


def fetched(answer: Any) -> list[Any]:
    (topic,) = answer.responses
    return list(topic.partitions)


class TestProduce:
    def test_batch_is_stored_and_its_offset_returned(self, kit: ApiKit) -> None:
        assert produced(kit.answer(produce(batch(b"a", b"b")))) == (ErrorCode.NONE, 0)
        assert produced(kit.answer(produce(batch(b"c")))) == (ErrorCode.NONE, 2)
        assert kit.cluster.topics.partition("orders", 0).log.end_offset == 3

    def test_another_brokers_partition_is_refused(self, kit: ApiKit) -> None:
        assert produced(kit.answer(produce(batch(b"a"), 1))) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert produced(kit.answer(produce(batch(b"a"), 1), node_id=1)) == (ErrorCode.NONE, 0)

    @pytest.mark.parametrize(("topic", "partition"), [("unknown", 0), ("orders", 2), ("orders", -1)])
    def test_unknown_partition_is_refused(self, kit: ApiKit, topic: str, partition: int) -> None:
        answer = kit.answer(produce(batch(b"a"), partition, topic=topic))
        assert produced(answer) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    @pytest.mark.parametrize(
        ("records", "code"),
        [
            (None, ErrorCode.INVALID_RECORD),
            (b"", ErrorCode.INVALID_RECORD),
            (b"nonsense", ErrorCode.INVALID_RECORD),
            (batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
            (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
            (batch(b"a")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
            (batch(b"a")[:16] + b"\7" + batch(b"a")[17:], ErrorCode.CORRUPT_MESSAGE),
        ],
    )
    def test_records_other_than_one_valid_batch_are_refused(
        self, kit: ApiKit, records: bytes | None, code: ErrorCode
    ) -> None:
        answer = kit.answer(produce(records))
        assert produced(answer) == (code, -1)
        assert "orders-0" in answer.responses[0].partition_responses[0].error_message

    def test_records_are_checked_before_they_are_stored(self, kit: ApiKit) -> None:
        whole = build([(1, None, b"v" * 100, ())], codec=Codec.GZIP)
        garbage = whole[:17] + struct.pack(">I", crc32c(whole[21:61] + b"garbage")) + whole[21:61] + b"garbage"
        garbage = garbage[:8] + struct.pack(">i", len(garbage) - 12) + garbage[12:]
        assert produced(kit.answer(produce(garbage))) == (ErrorCode.CORRUPT_MESSAGE, -1)

    def test_batch_with_future_timestamps_is_refused(self, kit: ApiKit) -> None:
        soon, late = int((WALL_TIME + 3599) * 1000), int((WALL_TIME + 3601) * 1000)
        records = [(time, None, b"v", ()) for time in (0, late, soon, late)]
        [partition] = kit.answer(produce(build(records))).responses[0].partition_responses
        assert partition.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in partition.record_errors] == [1, 3]
        assert produced(kit.answer(produce(build(records[:1] + records[2:3])))) == (ErrorCode.NONE, 0)

    def test_refused_produce_with_acks_zero_closes_the_connection(self, kit: ApiKit) -> None:
        with pytest.raises(ProtocolError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            kit.ask(produce(batch(b"a"), 7, acks=0))

    def test_batch_over_the_limit_is_refused(self) -> None:
        kit = ApiKit({"orders": 1}, settings=BrokerSettings(max_batch_size=100))
        assert produced(kit.answer(produce(batch(b"x" * 100)))) == (ErrorCode.MESSAGE_TOO_LARGE, -1)

    def test_invalid_acks_are_refused(self, kit: ApiKit) -> None:
        assert produced(kit.answer(produce(batch(b"a"), acks=2))) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
        assert kit.cluster.topics.partition("orders", 0).log.end_offset == 0

    def test_idempotent_retry_gets_the_first_offset(self, kit: ApiKit) -> None:
        init = request(InitProducerIdRequest, 4, transactional_id=None, transaction_timeout_ms=0)
        one, other = kit.answer(init), kit.answer(init)
        assert one.producer_id != other.producer_id
        records = build([(1, None, b"v", ())], producer_id=one.producer_id, producer_epoch=0, base_sequence=0)
        assert [produced(kit.answer(produce(records))) for _ in range(2)] == [(ErrorCode.NONE, 0)] * 2
        assert kit.cluster.topics.partition("orders", 0).log.end_offset == 1

    def test_a_transactional_producer_is_refused(self, kit: ApiKit) -> None:
        init = request(InitProducerIdRequest, 4, transactional_id="t", transaction_timeout_ms=1000)
        assert kit.answer(init).error_code == ErrorCode.INVALID_REQUEST

    def test_offsets_topic_is_closed_to_producers(self, kit: ApiKit) -> None:
        partition = kit.cluster.offsets_partition("g")
        number = partition.topic_partition.partition
        answer = kit.answer(produce(batch(b"a"), number, topic="__consumer_offsets"), node_id=partition.leader)
        assert produced(answer) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


class TestFetch:
    def test_fetch_returns_records_and_log_offsets(self, kit: ApiKit) -> None:
        kit.append("orders", 0, b"a", b"b")
        kit.append("orders", 0, b"c")
        kit.cluster.topics.partition("orders", 0).log.delete_before(1)
        (read,) = fetched(kit.answer(fetch(1)))
        assert values(read.records) == [b"a", b"b", b"c"]
        assert (read.high_watermark, read.last_stable_offset, read.log_start_offset) == (3, 3, 1)
        assert (read.preferred_read_replica, read.aborted_transactions) == (-1, None)

    def test_no_session_is_created_and_unknown_ones_are_refused(self, kit: ApiKit) -> None:
        assert kit.answer(fetch(0)).session_id == 0
        in_session = fetch(0)
        in_session.session_id, in_session.session_epoch = 5, 1
        assert kit.answer(in_session).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_size_limits_apply_except_to_the_first_batch(self, kit: ApiKit) -> None:
        for partition in (0, 1):
            kit.cluster.move_leader("orders", partition, 0, kit.now)
            for _ in range(3):
                kit.append("orders", partition, b"x" * 100)
        size = len(batch(b"x" * 100))

        def batches(**limits: int) -> list[int]:
            return [len(read.records) // size for read in fetched(kit.answer(fetch(0, 0, **limits)))]

        assert batches() == [3, 3]
        assert batches(partition_max_bytes=2 * size) == [2, 2]
        assert batches(max_bytes=4 * size) == [3, 1]
        assert batches(partition_max_bytes=1) == [1, 0]
        assert batches(max_bytes=1) == [1, 0]

    @pytest.mark.parametrize(
        ("offset", "fields", "code"),
        [
            (2, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
            (-1, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
            (0, {"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
            (0, {"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (0, {"current_leader_epoch": 1}, ErrorCode.NONE),
        ],
    )
    def test_errors_are_returned_at_once(
        self, kit: ApiKit, offset: int, fields: dict[str, int], code: ErrorCode
    ) -> None:
        kit.cluster.move_leader("orders", 0, 1, kit.now)
        kit.append("orders", 0, b"a")
        (read,) = fetched(kit.answer(fetch(offset, max_wait=30, **fields), node_id=1))
        assert read.error_code == code
        assert read.high_watermark == (-1 if code else 1)

    def test_error_of_a_partition_does_not_affect_another(self, kit: ApiKit) -> None:
        kit.append("orders", 0, b"a")
        good, bad = fetched(kit.answer(fetch(0, 0, max_wait=30)))
        assert (good.error_code, values(good.records)) == (ErrorCode.NONE, [b"a"])
        assert bad.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_diverging_consumer_gets_the_end_of_its_epoch(self, kit: ApiKit) -> None:
        kit.append("orders", 0, b"a")
        kit.cluster.move_leader("orders", 0, 1, kit.now)
        kit.append("orders", 0, b"b")
        # Epoch 0 ends at offset 1 here. A consumer that read offset 1 in epoch 0 read a record that this log lacks.
        (read,) = fetched(kit.answer(fetch(2, max_wait=30, last_fetched_epoch=0), node_id=1))
        assert (read.diverging_epoch.epoch, read.diverging_epoch.end_offset) == (0, 1)
        assert read.records == b""
        (read,) = fetched(kit.answer(fetch(1, last_fetched_epoch=0), node_id=1))
        assert values(read.records) == [b"b"]


class TestLongPoll:
    def test_empty_fetch_is_answered_at_its_deadline(self, kit: ApiKit) -> None:
        answers = kit.ask(fetch(0, max_wait=30))
        kit.sleep(29.999)
        assert answers == []
        kit.sleep(0.001)
        (read,) = fetched(answers.pop())
        assert (read.error_code, read.records) == (ErrorCode.NONE, b"")
        assert len(kit.cluster.fetches) == 0

    def test_produce_answers_the_fetch_that_waits_for_it(self, kit: ApiKit) -> None:
        answers = kit.ask(fetch(0, max_wait=30))
        kit.sleep(1)
        kit.answer(produce(batch(b"a")))
        (read,) = fetched(answers.pop())
        assert values(read.records) == [b"a"]

    def test_produce_to_another_partition_answers_no_fetch(self, kit: ApiKit) -> None:
        answers = kit.ask(fetch(0, max_wait=30))
        kit.answer(produce(batch(b"a"), 1), node_id=1)
        assert answers == []

    def test_fetch_waits_until_its_partitions_have_min_bytes(self, kit: ApiKit) -> None:
        kit.cluster.move_leader("orders", 1, 0, kit.now)
        size = len(batch(b"x"))
        answers = kit.ask(fetch(0, 0, max_wait=30, min_bytes=2 * size))
        kit.answer(produce(batch(b"x"), 0))
        assert answers == []
        kit.answer(produce(batch(b"x"), 1))
        assert [values(read.records) for read in fetched(answers.pop())] == [[b"x"], [b"x"]]

    def test_fetch_below_min_bytes_is_answered_at_its_deadline(self, kit: ApiKit) -> None:
        answers = kit.ask(fetch(0, max_wait=30, min_bytes=1 << 20))
        kit.answer(produce(batch(b"x")))
        kit.sleep(30)
        (read,) = fetched(answers.pop())
        assert values(read.records) == [b"x"]

    def test_leader_move_ends_the_wait(self, kit: ApiKit) -> None:
        answers = kit.ask(fetch(0, max_wait=30))
        kit.cluster.move_leader("orders", 0, 1, kit.now)
        (read,) = fetched(answers.pop())
        assert read.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_deleted_topic_ends_the_wait(self, kit: ApiKit) -> None:
        answers = kit.ask(fetch(0, max_wait=30))
        kit.cluster.delete_topic("orders", kit.now)
        (read,) = fetched(answers.pop())
        assert read.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_fetch_without_partitions_is_not_held(self, kit: ApiKit) -> None:
        empty = request(FetchRequest, 12, max_wait_ms=30_000, min_bytes=1, topics=[], forgotten_topics_data=[])
        assert kit.answer(empty).responses == []

    def test_partition_named_twice_is_answered_once(self, kit: ApiKit) -> None:
        twice = fetch(0, 0, max_wait=30)
        twice.topics[0].partitions[1].partition = 0
        twice.topics[0].partitions[1].fetch_offset = 1
        kit.answer(produce(batch(b"a")))
        answers = kit.ask(twice)
        assert answers == []
        kit.answer(produce(batch(b"b")))
        (read,) = fetched(answers.pop())
        assert values(read.records) == [b"b"]
