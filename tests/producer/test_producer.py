"""A producer and a cluster in memory, in virtual time: each acknowledged record is in the log exactly once."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    ConfigError,
    ConnectError,
    DeliveryTimeoutError,
    KafkaError,
    MessageTooLargeError,
    Producer,
    ProducerRecord,
    RecordMetadata,
    RetriesExhaustedError,
    TopicAuthorizationError,
    TopicPartition,
    UnknownTopicError,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.errors import kafka_error
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import Retrying
from sarameya.protocol.cluster.metadata import ClusterMetadata
from sarameya.protocol.records.batch_codec import split
from sarameya.testing import VIRTUAL_EPOCH, Api, ErrorCode, memory_cluster, virtual_wall_clock
from tests.producer.kit import cancelled_after, log, producing, values


async def test_record_is_stored_unchanged_at_the_returned_offset(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 4}) as cluster, producing(cluster) as sent:
        await trio.sleep(5)
        headers = (("a", b"1"), ("a", None))
        partition, offset = await sent.producer.send("orders", b"value", key=b"21", headers=headers)
        timed = await sent.producer.send("orders", None, partition=3, timestamp=77)

        (message,) = log(cluster, partition)
        assert (message.offset, message.key, message.value, message.headers) == (offset, b"21", b"value", headers)
        assert message.timestamp == (VIRTUAL_EPOCH + 5) * 1000
        assert timed == RecordMetadata(3, 0)
        (message,) = log(cluster, 3)
        assert (message.value, message.timestamp) == (None, 77)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_are_compressed_as_configured(autojump_clock: MockClock, compression: str) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, compression=compression) as sent:
        await sent.producer.send("orders", b"v" * 10_000)
        assert values(cluster) == [b"v" * 10_000]
        (data,) = cluster.log("orders", 0).batches()
        assert (len(data) < 1_000) == (compression != "none")


async def test_many_records_are_sent_in_few_batches_in_order(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 3}, brokers=3) as cluster, producing(cluster) as sent:
        records = [ProducerRecord("orders", b"%d" % n, partition=n % 3) for n in range(3_000)]
        places = await sent.producer.send_many(records)

        assert places == [RecordMetadata(n % 3, n // 3) for n in range(3_000)]
        for number in range(3):
            assert values(cluster, number) == [b"%d" % n for n in range(number, 3_000, 3)]
            assert cluster.log("orders", number).batch_count == 1


async def test_batches_respect_the_size_limit(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, produce_batch_bytes=10_000) as sent:
        await sent.producer.send_many([ProducerRecord("orders", b"v" * 1_000) for _ in range(100)])
        assert len(values(cluster)) == 100
        assert max(map(len, cluster.log("orders", 0).batches())) <= 10_000


async def test_concurrent_sends_share_batches(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(sent.send, b"%d" % n)
        assert {value: place.offset for value, place in sent.places.items()} == {
            message.value: message.offset for message in log(cluster)
        }
        assert cluster.log("orders", 0).batch_count <= 3


async def test_sending_no_records_returns_at_once(autojump_clock: MockClock) -> None:
    async with memory_cluster() as cluster, producing(cluster) as sent:
        assert await sent.producer.send_many([]) == []
        assert sent.events == []


async def test_two_producers_have_their_own_sequences(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as one, producing(cluster) as other:
        for n in range(10):
            await one.send(b"one %d" % n)
            await other.send(b"other %d" % n)
        assert not one.errors
        assert len(values(cluster)) == 20


# -- passing faults ---------------------------------------------------------------------------------


@pytest.mark.parametrize("half", ["request", "answer"])
@pytest.mark.parametrize("hang_up", [True, False])
async def test_lost_request_or_response_is_retried_and_stored_once(
    autojump_clock: MockClock, half: str, hang_up: bool
) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        await sent.send(b"before")
        cluster.drop_next(Api.PRODUCE, 3, half=half, hang_up=hang_up)
        await sent.send(b"lost")
        await sent.send(b"after")

        assert values(cluster) == [b"before", b"lost", b"after"]
        assert [place.offset for place in sent.places.values()] == [0, 1, 2]
        assert len(sent.seen(Retrying)) == 3


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    ],
)
async def test_passing_error_code_is_retried(autojump_clock: MockClock, code: ErrorCode) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        cluster.fail_next(Api.PRODUCE, code, 4)
        await sent.send(b"v")
        await sent.send(b"w")
        assert values(cluster) == [b"v", b"w"]
        assert all(code.name in event.cause for event in sent.seen(Retrying))
        assert len(sent.seen(Retrying)) == 4


async def test_moved_leader_is_followed(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}, brokers=3) as cluster, producing(cluster) as sent:
        for n in range(12):
            cluster.move_leader("orders", 0, n % 3)
            await sent.send(b"%d" % n)
        assert values(cluster) == [b"%d" % n for n in range(12)]
        assert trio.current_time() < 12


async def test_response_lost_during_a_leader_move_duplicates_nothing(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}, brokers=2) as cluster, producing(cluster) as sent:
        await sent.send(b"before")
        cluster.drop_next(Api.PRODUCE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"v")
            await trio.sleep(0.01)
            cluster.move_leader("orders", 0, 1)
        assert values(cluster) == [b"before", b"v"]
        assert sent.places[b"v"] == RecordMetadata(0, 1)


async def test_stopped_broker_is_awaited(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        await sent.send(b"before")
        await cluster.stop_broker(0)
        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(sent.send, b"%d" % n)
            await trio.sleep(60)
            await cluster.start_broker(0)
        assert not sent.errors
        assert sorted(v or b"" for v in values(cluster)) == [b"0", b"1", b"2", b"3", b"4", b"before"]
        assert trio.current_time() < 65


async def test_leaderless_partition_does_not_delay_the_others(autojump_clock: MockClock) -> None:
    cluster = EmbeddedCluster(
        {"orders": 2}, brokers=2, in_memory=True, replication_factor=1, wall_clock=virtual_wall_clock
    )
    async with cluster, producing(cluster) as sent:
        await sent.send(b"a", 0)
        await cluster.stop_broker(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"waits", 1)
            await trio.sleep(20)
            began = trio.current_time()
            await sent.send(b"b", 0)
            assert trio.current_time() - began < 0.1
            assert b"waits" not in sent.places
            await cluster.start_broker(1)
        assert values(cluster, 1) == [b"waits"]


async def test_hanging_broker_does_not_delay_the_others(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 2}, brokers=2) as cluster, producing(cluster, request_timeout=5.0) as sent:
        await sent.send(b"a", 0)
        await sent.send(b"b", 1)
        cluster.freeze_broker(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"waits", 1)
            await trio.sleep(12)
            began = trio.current_time()
            await sent.send(b"c", 0)
            assert trio.current_time() - began < 0.1
            cluster.unfreeze_broker(1)
        assert values(cluster, 1) == [b"b", b"waits"]


async def test_truncated_log_is_continued_under_the_next_epoch(autojump_clock: MockClock) -> None:
    """After an unclean election the broker lacks sequences that it had acknowledged."""
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        for value in (b"a", b"b", b"c"):
            await sent.send(value)
        cluster.fail_next(Api.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await sent.send(b"d")
        await sent.send(b"e")

        assert values(cluster) == [b"a", b"b", b"c", b"d", b"e"]
        headers = [next(split(data, TopicPartition("orders", 0), 0)) for data in cluster.log("orders", 0).batches()]
        assert [(raw.producer_epoch, raw.base_sequence) for raw in headers] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]

    return TopicPartition("orders", 0)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_request_of_the_producer_id_is_retried(autojump_clock: MockClock, code: ErrorCode) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        cluster.fail_next(Api.INIT_PRODUCER_ID, code, 5)
        await sent.send(b"v")
        assert values(cluster) == [b"v"]


# -- permanent faults -------------------------------------------------------------------------------


async def test_unknown_topic_is_awaited_then_raised(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        with pytest.raises(UnknownTopicError, match=r"nowhere.*create the topic"):
            await sent.producer.send("nowhere", b"v")
        assert trio.current_time() == pytest.approx(10, abs=0.1)


async def test_topic_created_while_waiting_is_sent_to(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"v", 0, "later")
            await trio.sleep(5)
            cluster.create_topic("later")
        assert values(cluster, topic="later") == [b"v"]


async def test_missing_partition_is_refused_until_it_is_added(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 2}) as cluster, producing(cluster) as sent:
        with pytest.raises(UnknownTopicError, match=r"orders-2.*partitions 0 to 1"):
            await sent.producer.send("orders", b"v", partition=2)
        cluster.add_partitions("orders", 3)
        assert await sent.producer.send("orders", b"v", partition=2) == RecordMetadata(2, 0)


async def test_unauthorized_topic_is_refused_at_once(
    autojump_clock: MockClock,
) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        cluster.fail_next(Api.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(TopicAuthorizationError, match=r"orders-0.*grant this principal WRITE"):
            await sent.producer.send("orders", b"v")
        assert trio.current_time() < 1
        await sent.send(b"w")
        assert values(cluster) == [b"w"]


async def test_invisible_topic_is_refused_with_advice_for_producers(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for_topics(self: MetadataRefresher, topics: object) -> ClusterMetadata:
        raise kafka_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 'orders'")

    monkeypatch.setattr(MetadataRefresher, "wait_for_topics", wait_for_topics)
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        with pytest.raises(TopicAuthorizationError, match=r"topic 'orders'.*grant this principal WRITE"):
            await sent.producer.send("orders", b"v")


async def test_producer_without_idempotent_permission_is_refused(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 2}) as cluster, producing(cluster) as sent:
        cluster.fail_next(Api.INIT_PRODUCER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"a", 0)
            nursery.start_soon(sent.send, b"b", 1)
        assert {type(error) for error in sent.errors.values()} == {KafkaError}
        assert all("grant this principal" in str(error) for error in sent.errors.values())
        await sent.send(b"c")
        assert values(cluster) == [b"c"]


async def test_record_over_the_client_limit_is_refused_early(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, max_request_bytes=2_000) as sent:
        records = [ProducerRecord("orders", b"small"), ProducerRecord("orders", b"v" * 2_000)]
        with pytest.raises(MessageTooLargeError, match="max_request_bytes is 2000"):
            await sent.producer.send_many(records)
        assert values(cluster) == []


async def test_record_over_the_topic_limit_is_refused_alone(
    autojump_clock: MockClock,
) -> None:
    cluster = EmbeddedCluster({"orders": 1}, in_memory=True, max_batch_size=5_000, wall_clock=virtual_wall_clock)
    async with cluster, producing(cluster) as sent:
        small = [b"%04d" % n + b"v" * 800 for n in range(20)]
        records = [ProducerRecord("orders", value) for value in [*small[:10], b"v" * 6_000, *small[10:]]]
        with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes") as caught:
            await sent.producer.send_many(records)
        assert caught.value.__notes__ == ["1 of 21 records were not acknowledged"]
        assert values(cluster) == small


async def test_invalid_record_is_refused_and_its_neighbours_stored(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        year = 365 * 86_400_000
        stamps = [None, int(VIRTUAL_EPOCH * 1000) + year, None]
        records = [ProducerRecord("orders", b"%d" % n, timestamp=stamp) for n, stamp in enumerate(stamps)]
        with pytest.raises(KafkaError, match="INVALID_TIMESTAMP") as caught:
            await sent.producer.send_many(records)
        assert caught.value.__notes__ == ["1 of 3 records were not acknowledged"]
        assert values(cluster) == [b"0", b"2"]
        first, wrong, last = await sent.producer.send_each(records)
        assert (first, last) == (RecordMetadata(0, 2), RecordMetadata(0, 3))
        assert isinstance(wrong, KafkaError)
        assert wrong.code == ErrorCode.INVALID_TIMESTAMP


async def test_unreachable_cluster_raises_after_the_timeout(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        await cluster.stop_broker(0)
        with pytest.raises(ConnectError, match="gave up after 10 s"):
            await sent.producer.send("orders", b"v")


# -- time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
async def test_unacknowledged_record_is_raised_with_the_cause(autojump_clock: MockClock, is_known: bool) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, bootstrap_timeout=600.0) as sent:
        if is_known:
            await sent.send(b"before")
        await cluster.stop_broker(0)
        began = trio.current_time()
        with pytest.raises(DeliveryTimeoutError, match=r"not acknowledged in 120 s") as caught:
            await sent.producer.send("orders", b"v")
        assert trio.current_time() - began == 120
        assert ("no broker listens" in caught.value.trouble) == is_known

        await cluster.start_broker(0)
        await trio.sleep(10)
        await sent.send(b"after")
        assert values(cluster) == ([b"before", b"after"] if is_known else [b"after"])


async def test_each_record_has_its_own_delivery_timeout(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, delivery_timeout=20.0) as sent:
        await sent.send(b"before")
        cluster.fail_next(Api.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"early")
            await trio.sleep(15)
            nursery.start_soon(sent.send, b"late")
            await trio.sleep(10)
            cluster.clear_faults()
        assert isinstance(sent.errors[b"early"], DeliveryTimeoutError)
        assert "NOT_ENOUGH_REPLICAS" in str(sent.errors[b"early"])
        assert values(cluster) == [b"before", b"late"]


async def test_late_response_leaves_the_producer_usable(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, delivery_timeout=5.0) as sent:
        await sent.send(b"before")
        cluster.delay_next(Api.PRODUCE, 8.0)
        await sent.send(b"late")
        assert isinstance(sent.errors[b"late"], DeliveryTimeoutError)
        await sent.send(b"after")
        assert values(cluster) == [b"before", b"late", b"after"]


async def test_exhausted_attempts_are_raised(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, retry_max_attempts=3) as sent:
        cluster.fail_next(Api.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, None)
        with pytest.raises(RetriesExhaustedError, match="produce to orders-0"):
            await sent.producer.send("orders", b"v")
        cluster.clear_faults()
        cluster.fail_next(Api.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        async with producing(cluster, retry_max_attempts=3) as other:
            with pytest.raises(RetriesExhaustedError, match="producer id"):
                await other.producer.send("orders", b"v")


# -- cancellation and exit --------------------------------------------------------------------------


async def test_cancelled_record_that_was_not_sent_is_never_sent(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        await sent.send(b"before")
        cluster.delay_next(Api.PRODUCE, 5.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent.send, b"out")
            await trio.sleep(1)
            nursery.start_soon(cancelled_after, 1, sent, b"cancelled")
            nursery.start_soon(sent.send, b"waits")
        assert values(cluster) == [b"before", b"out", b"waits"]


async def test_cancelled_record_does_not_delay_the_next(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        await sent.send(b"before")
        cluster.fail_next(Api.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, None)
        await cancelled_after(30, sent, b"cancelled")
        cluster.clear_faults()
        began = trio.current_time()
        await sent.send(b"after")
        assert trio.current_time() - began < 0.1
        assert values(cluster) == [b"before", b"after"]
        await trio.sleep(60)
        assert values(cluster) == [b"before", b"after"]


async def test_cancelled_record_that_arrives_late_is_fenced(autojump_clock: MockClock) -> None:
    """The request is delayed, and arrives when the log already has the next record."""
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster, request_timeout=5.0) as sent:
        await sent.send(b"before")
        cluster.delay_next(Api.PRODUCE, 20.0, half="request")
        await cancelled_after(1, sent, b"cancelled")
        await trio.sleep(6)
        await sent.send(b"after")
        await trio.sleep(60)
        assert values(cluster) == [b"before", b"after"]


async def test_exit_of_the_context_fails_pending_sends(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster:
        async with trio.open_nursery() as nursery:
            async with producing(cluster) as sent:
                await sent.send(b"before")
                cluster.freeze_broker(0)
                nursery.start_soon(sent.send, b"v")
                nursery.start_soon(sent.send, b"w", 0, "unknown")
                await trio.sleep(1)
            assert trio.current_time() == pytest.approx(1, abs=0.01)
        assert {type(error) for error in sent.errors.values()} == {RuntimeError}
        with pytest.raises(RuntimeError, match="only inside its block"):
            await sent.producer.send("orders", b"v")


async def test_exception_of_the_context_is_raised_unchanged(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with producing(cluster) as sent:
                await sent.send(b"v")
                raise ZeroDivisionError


async def test_send_in_a_cancelled_scope_sends_nothing(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, producing(cluster) as sent:
        await sent.send(b"before")
        with trio.CancelScope() as scope:
            scope.cancel()
            await sent.send(b"v")
        assert scope.cancelled_caught
        await trio.sleep(10)
        assert values(cluster) == [b"before"]


def test_invalid_address_is_refused_before_any_io() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Producer("nowhere")
