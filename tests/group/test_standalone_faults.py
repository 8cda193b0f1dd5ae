"""Faults that a consumer without a group protocol survives, its errors, and its state after a cancellation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    CorruptRecordError,
    ErrorCode,
    LogTruncatedError,
    OffsetOutOfRangeError,
    RetriesExhaustedError,
    TopicAuthorizationError,
    TopicRecreatedError,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.apis import Call
from sarameya.observe import LeaderChanged, Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, on_request
from tests.group.kit import committed, deadline, fill, orders
from tests.group.standalone_kit import ORDERS, CountingTransport, Watched, offsets_of, take
from tests.group.test_cancellation import CancelAtStep


async def test_corrupt_record_fails_only_its_claim(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        fill(cluster, 3, 0)
        cluster.append_raw("orders", 0, b"\x00" * 16 + b"\x02" + b"\x00" * 100, 3)
        fill(cluster, 3, 1)
        async with Watched(cluster) as consumer, consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
            bad, good = claims.values()
            assert await offsets_of(bad, 3) == [0, 1, 2]
            for _ in range(2):
                with pytest.raises(CorruptRecordError, match="orders-0 at offset 3"):
                    await anext(aiter(bad))
            assert bad.position == 3
            assert await offsets_of(good, 3) == [0, 1, 2]
            fill(cluster, 2, 1)
            assert await offsets_of(good, 2) == [3, 4]


async def test_offset_outside_of_the_log_fails_only_its_claim(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        fill(cluster, 3, 0)
        fill(cluster, 3, 1)
        async with Watched(cluster) as consumer, consumer.consume_partitions({ORDERS[0]: 100, ORDERS[1]: 0}) as claims:
            with pytest.raises(OffsetOutOfRangeError, match=r"orders-0: offset 100 is outside the log \[0, 3\)"):
                await anext(aiter(claims[ORDERS[0]]))
            assert await offsets_of(claims[ORDERS[1]], 3) == [0, 1, 2]


async def test_truncation_while_stopped_is_found_by_the_commits_epoch(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline():
        cluster.move_leader("orders", 0, 1)  # so that the epoch is not the first one
        fill(cluster, 20)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0, "oldest") as claim:
            for message in await take(claim, 20):
                consumer.mark_message(message)
        cluster.truncate("orders", 0, 15)
        cluster.move_leader("orders", 0, 0)
        fill(cluster, 20)  # so that the position is in the log again, among other messages
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0) as claim:
            with pytest.raises(LogTruncatedError) as raised:
                await anext(aiter(claim))
            assert (raised.value.offset, raised.value.diverging_offset) == (20, 15)


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_truncation_below_a_looked_up_start_is_detected(autojump_clock: MockClock, group_id: str | None) -> None:
    async with orders(brokers=2) as cluster, deadline():
        fill(cluster, 20)
        async with Watched(cluster, group_id, offset_initial="newest") as consumer:
            async with consumer.consume_partition("orders", 0) as claim:
                await trio.sleep(1)
                cluster.truncate("orders", 0, 15)
                cluster.move_leader("orders", 0, 1)
                fill(cluster, 20)
                with pytest.raises(LogTruncatedError):
                    await anext(aiter(claim))


async def test_truncation_below_an_unread_start_is_found_by_the_commit(
    autojump_clock: MockClock,
) -> None:
    async with orders(brokers=2) as cluster, deadline():
        fill(cluster, 20)
        async with Watched(cluster, "g", offset_initial="newest") as consumer:
            async with consumer.consume_partition("orders", 0):
                assert committed(cluster) == {"orders-0": 20}
        cluster.truncate("orders", 0, 15)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 20)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0) as claim:
            with pytest.raises(LogTruncatedError):
                await anext(aiter(claim))


async def test_looked_up_start_is_not_validated_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[Call] = []
    on_request(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH, requested.append)
    async with orders(brokers=2) as cluster, deadline():
        fill(cluster, 20)
        cluster.move_leader("orders", 0, 1)
        async with Watched(cluster) as consumer, consumer.consume_partition("orders", 0, "oldest") as claim:
            assert await offsets_of(claim, 20) == list(range(20))
        assert not requested


async def test_recreated_topic_fails_its_claims_and_drops_their_marks(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline():
        fill(cluster, 20, 0)
        fill(cluster, 20, 1)
        async with Watched(cluster, "g", autocommit_interval=1000.0) as consumer:
            async with consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
                for claim in claims.values():
                    consumer.mark_message((await take(claim, 20))[-1])
                cluster.delete_topic("orders")
                cluster.create_topic("orders", 2)
                fill(cluster, 30, 0)
                fill(cluster, 30, 1)
                for claim in claims.values():
                    with pytest.raises(TopicRecreatedError):
                        await anext(aiter(claim))
        assert committed(cluster) == {"orders-0": 0, "orders-1": 0}, "the start of the new topic, and no old mark"


async def test_unauthorized_topic_fails_only_its_claim(autojump_clock: MockClock) -> None:
    def refuse(_: Any, answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.error_code, partition.records = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None

    async with orders() as cluster, deadline():
        with pytest.MonkeyPatch.context() as monkeypatch:
            edit_answers(monkeypatch, Api.FETCH, refuse)
            async with Watched(cluster) as consumer, consumer.consume_partition("orders", 0, 0) as claim:
                with pytest.raises(TopicAuthorizationError):
                    await anext(aiter(claim))


async def test_leader_that_moves_or_stops_is_followed(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=3) as cluster, deadline():
        async with Watched(cluster) as consumer, consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
            moving, staying = claims.values()
            fill(cluster, 3, 0)
            assert await offsets_of(moving, 3) == [0, 1, 2]
            cluster.move_leader("orders", 0, 2)
            fill(cluster, 3, 0)
            assert await offsets_of(moving, 3) == [3, 4, 5]
            await cluster.stop_broker(2)
            fill(cluster, 3, 0)
            assert await offsets_of(moving, 3) == [6, 7, 8]
            cluster.disconnect()
            fill(cluster, 3, 0)
            fill(cluster, 3, 1)
            assert await offsets_of(moving, 3) == [9, 10, 11]
            assert await offsets_of(staying, 3) == [0, 1, 2]


@pytest.mark.parametrize("start", [0, "oldest"])
async def test_partition_without_a_leader_is_retried(autojump_clock: MockClock, start: Any) -> None:
    has_leader = False

    def leave_out(_: Any, answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.partition_index == 0 and not has_leader:
                    partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE

    with pytest.MonkeyPatch.context() as monkeypatch:
        edit_answers(monkeypatch, Api.METADATA, leave_out)
        async with orders(2) as cluster, deadline() as nursery:
            fill(cluster, 3, 0)
            fill(cluster, 3, 1)
            async with Watched(cluster) as consumer:
                read: list[int] = []

                async def wait_and_read() -> None:
                    async with consumer.consume_partition("orders", 0, start) as claim:
                        read.extend(await offsets_of(claim, 3))

                nursery.start_soon(wait_and_read)
                async with consumer.consume_partition("orders", 1, 0) as claim:
                    assert await offsets_of(claim, 3) == [0, 1, 2]
                await trio.sleep(30)
                assert not read
                assert consumer.seen(Retrying)
                has_leader = True
                await trio.sleep(10)
                assert read == [0, 1, 2]


async def test_retries_are_bounded_by_the_options(autojump_clock: MockClock) -> None:
    """The error is raised by the call that needs the result: by the claim, and by the commit."""
    async with orders(brokers=1) as cluster, deadline():
        async with Watched(cluster, "g", retry_max_attempts=3, autocommit=False) as consumer:
            async with consumer.consume_partition("orders", 0) as claim:
                consumer.mark_offset("orders", 0, 3)
                cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 100)
                cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, 100)
                with pytest.raises(RetriesExhaustedError, match="coordinator of group g"):
                    await consumer.commit()
                cluster.fail_next(Api.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, 100)
                fill(cluster, 1)
                with pytest.raises(RetriesExhaustedError, match="leader of orders-0"):
                    await offsets_of(claim, 2)


async def test_partition_ended_during_a_leader_look_up_is_not_read(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline():
        async with Watched(cluster) as consumer, consumer.consume_partitions(ORDERS[:2], 0) as claims:
            await trio.sleep(1)
            cluster.fail_next(Api.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
            fill(cluster, 1, 0)
            await trio.sleep(0.05)
            assert consumer.seen(LeaderChanged)
            consumer.end(claims[ORDERS[0]])
            async with consumer.consume_partition("orders", 0, 0) as again:
                fill(cluster, 1, 1)
                assert await offsets_of(again, 1) == [0]
                assert await offsets_of(claims[ORDERS[1]], 1) == [0]


# -- cancellation -------------------------------------------------------------------------------------


async def live_once(
    cluster: EmbeddedCluster, transport: CountingTransport, canceller: CancelAtStep, read: list[int]
) -> None:
    """Run a consumer that reads and marks ten messages of each of two partitions, under the canceller's scope."""
    with trio.CancelScope() as canceller.scope:
        async with Watched(cluster, "g", transport=transport, offset_initial="oldest") as consumer:
            partitions = await consumer.topic_partitions("orders")
            async with consumer.consume_partitions(partitions) as claims:
                for claim in claims.values():
                    for _ in range(10):
                        consumer.mark_message(await anext(aiter(claim)))
                        read[claim.partition] += 1
                    await consumer.commit()
    canceller.scope = None


def run(step: float) -> tuple[int, list[int], dict[str, int]]:
    """Run a consumer, cancelled at `step`, and check that nothing stays open. Return steps, read counts, commits."""
    canceller = CancelAtStep(step)

    async def main() -> tuple[int, list[int], dict[str, int]]:
        read = [0, 0]
        async with orders(2) as cluster:
            fill(cluster, 10, 0)
            fill(cluster, 10, 1)
            transport = CountingTransport(cluster.transport)
            began, nurseries = trio.current_time(), list(trio.lowlevel.current_task().child_nurseries)
            with trio.fail_after(100):
                await live_once(cluster, transport, canceller, read)
            assert trio.current_time() - began <= 15, "closing is bounded"
            assert not transport.open, f"cancelled at step {step}: a connection is open"
            assert list(trio.lowlevel.current_task().child_nurseries) == nurseries, f"cancelled at step {step}"
            return canceller.steps, read, committed(cluster)

    return trio.run(main, clock=MockClock(autojump_threshold=0), instruments=[canceller])


def test_cancellation_at_every_step_loses_no_mark() -> None:
    steps, read, commits = run(math.inf)
    assert (read, commits) == ([10, 10], {"orders-0": 10, "orders-1": 10})
    assert steps > 100
    for step in range(1, steps + 1):
        _, read, commits = run(step)
        assert [commits.get(f"orders-{number}", 0) for number in (0, 1)] == read, f"cancelled at step {step}"


async def test_look_up_of_a_lost_position_ends_with_its_claim(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 20)
        async with Watched(cluster, offset_out_of_range="oldest") as consumer:
            async with consumer.consume_partition("orders", 0, 20):
                cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
                cluster.truncate("orders", 0, 5)
                await trio.sleep(5)
            assert {retrying.what for retrying in consumer.seen(Retrying)} == {"offset lookup"}
            consumer.events.clear()
            await trio.sleep(60)
            assert not consumer.seen(Retrying)
            cluster.clear_faults()
            async with consumer.consume_partition("orders", 0, 2) as claim:
                assert await offsets_of(claim, 3) == [2, 3, 4]
