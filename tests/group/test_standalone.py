"""Partitions read without a group protocol. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConfigError, ConnectError, Consumer, TopicPartition, UnknownTopicError
from sarameya.observe import ClaimEnded, ClaimStarted
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, watch_fetches
from tests.group.kit import deadline, eventually, fill, orders
from tests.group.standalone_kit import ORDERS, Watched, offsets_of, take


@pytest.mark.parametrize(
    ("start", "first", "why"), [(7, 7, "given"), ("oldest", 2, "oldest"), ("newest", 10, "newest"), (10, 10, "given")]
)
async def test_partition_is_read_from_the_given_start(
    autojump_clock: MockClock, start: Any, first: int, why: str
) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        cluster.delete_records("orders", 0, 2)
        async with Watched(cluster) as consumer, consumer.consume_partition("orders", 0, start) as claim:
            assert claim.initial_offset == first
            fill(cluster, 5)
            assert await offsets_of(claim, 15 - first) == list(range(first, 15))
        assert consumer.seen(ClaimStarted) == [ClaimStarted(ORDERS[0], first, why)]
        (ended,) = consumer.seen(ClaimEnded)
        assert (ended.partition, ended.offset, ended.records) == (ORDERS[0], 15, 15 - first)
        assert ended.size_bytes > 0


@pytest.mark.parametrize(("policy", "first"), [("oldest", 0), ("newest", 10)])
async def test_partition_without_a_start_uses_the_policy(autojump_clock: MockClock, policy: str, first: int) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, offset_initial=policy) as consumer:
            async with consumer.consume_partition("orders", 0) as claim:
                assert claim.position == first


async def test_claim_has_messages_batches_position_and_lag(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        async with Watched(cluster) as consumer, consumer.consume_partition("orders", 0, "oldest") as claim:
            assert (claim.position, claim.high_water_mark, claim.lag) == (0, -1, -1)
            assert await offsets_of(claim, 3) == [0, 1, 2]
            assert (claim.position, claim.high_water_mark, claim.lag) == (3, 10, 7)
            batch = await anext(claim.batches())
            assert [message.offset for message in batch.messages] == [3, 4, 5, 6, 7, 8, 9]
            assert (claim.position, claim.lag) == (10, 0)


async def test_several_partitions_start_with_one_request_per_broker(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[Api] = []
    for api in (Api.OFFSET_FETCH, Api.LIST_OFFSETS):
        edit_answers(monkeypatch, api, lambda _, __, api=api: requested.append(api))
    async with orders(4) as cluster, deadline():
        for number in range(4):
            fill(cluster, number, number)
        async with Watched(cluster, "g") as consumer:
            chosen = {ORDERS[0]: "oldest", ORDERS[1]: "newest", ORDERS[2]: 2, ORDERS[3]: None}
            async with consumer.consume_partitions(chosen) as claims:
                assert {tp.partition: claim.position for tp, claim in claims.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
                assert list(claims) == ORDERS
                assert consumer.claims == claims
            assert not consumer.claims
        assert sorted(requested) == sorted([Api.OFFSET_FETCH, Api.LIST_OFFSETS])


async def test_common_offset_is_for_partitions_without_their_own(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        fill(cluster, 5, 0)
        fill(cluster, 5, 1)
        async with Watched(cluster) as consumer:
            async with consumer.consume_partitions({ORDERS[0]: 3, ORDERS[1]: None}, "oldest") as claims:
                assert [claim.position for claim in claims.values()] == [3, 0]


async def test_ended_claim_does_not_end_the_others(autojump_clock: MockClock) -> None:
    ended: list[TopicPartition] = []

    async def read_to_the_end(claim: Claim) -> None:
        async for _ in claim:
            pass
        ended.append(claim.topic_partition)

    async with orders(2) as cluster, deadline() as nursery:
        async with Watched(cluster) as consumer:
            async with consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
                nursery.start_soon(read_to_the_end, claims[ORDERS[0]])
                await trio.sleep(1)
                consumer.end(claims[ORDERS[0]])
                consumer.end(claims[ORDERS[0]])
                fill(cluster, 3, 0)
                fill(cluster, 3, 1)
                assert await offsets_of(claims[ORDERS[1]], 3) == [0, 1, 2]
                assert ended == [ORDERS[0]]
                assert list(consumer.claims) == [ORDERS[1]]


async def test_ended_claim_is_no_longer_fetched(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = watch_fetches(monkeypatch)
    async with orders(2) as cluster, deadline():
        async with Watched(cluster) as consumer, consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
            await trio.sleep(5)
            assert fetches.wanted[-1] == {0, 1}
            consumer.end(claims[ORDERS[0]])
            await trio.sleep(1)  # the pending fetch still contains it
            fetches.clear()
            await trio.sleep(5)
            assert set(fetches.wanted) == {frozenset({1})}


async def test_iterator_ends_with_its_block_or_with_the_consumer(autojump_clock: MockClock) -> None:
    async def count(claim: Claim) -> None:
        counts.append(len([message async for message in claim]))

    counts: list[int] = []
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 5, 0)
        fill(cluster, 7, 1)
        async with Watched(cluster) as consumer:
            outlives = consumer.consume_partition("orders", 1, "oldest")
            nursery.start_soon(count, await outlives.__aenter__())
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                nursery.start_soon(count, claim)
                await trio.sleep(1)
            await trio.sleep(1)
            assert counts == [5]
        await trio.sleep(1)
        assert counts == [5, 7]
        await outlives.__aexit__(None, None, None)


async def test_buffered_bytes_are_counted_until_processed_or_ended(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline():
        cluster.produce_many("orders", 0, [(None, b"x" * 1000)] * 50)
        consumer = Watched(cluster)
        assert consumer.buffered_bytes == 0
        async with consumer:
            async with consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
                await eventually(lambda: consumer.buffered_bytes > 50_000)
                await take(claims[ORDERS[0]], 50)
                assert consumer.buffered_bytes > 50_000, "the last one may still be processed"
                with trio.move_on_after(1):
                    await take(claims[ORDERS[0]], 1)
                assert consumer.buffered_bytes == 0
                cluster.produce("orders", 1, b"x" * 1000)
                await eventually(lambda: consumer.buffered_bytes > 1000)
            assert consumer.buffered_bytes == 0
        assert consumer.buffered_bytes == 0


async def test_partition_being_read_is_refused_until_it_ends(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 5)

        async def read_too() -> None:
            with pytest.raises(ValueError, match="orders-0 is being read already"):
                async with consumer.consume_partition("orders", 0):
                    pass
            refused.set()

        async with Watched(cluster) as consumer:
            refused = trio.Event()
            nursery.start_soon(read_too)  # while the first one looks up its start offset
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                await refused.wait()
                with pytest.raises(ValueError, match="orders-0 is being read already"):
                    async with consumer.consume_partitions(ORDERS[:2]):
                        pass
                assert await offsets_of(claim, 5) == [0, 1, 2, 3, 4]
            async with consumer.consume_partition("orders", 0, 3) as claim:
                assert await offsets_of(claim, 2) == [3, 4]


async def test_partition_read_again_at_its_log_end_knows_the_end(autojump_clock: MockClock) -> None:
    """The fetch session is the same, so the broker sends only changes."""
    async with orders(2) as cluster, deadline():
        fill(cluster, 5)
        async with Watched(cluster) as consumer, consumer.consume_partition("orders", 1):
            for _ in range(3):
                async with consumer.consume_partition("orders", 0, "newest") as claim:
                    await eventually(lambda: (claim.high_water_mark, claim.lag) == (5, 0))


async def test_partitions_and_offsets_of_a_topic_are_returned(autojump_clock: MockClock) -> None:
    async with orders(3) as cluster, deadline():
        for number in range(3):
            for timestamp in range(100, 100 + 10 * number, 10):
                cluster.produce("orders", number, b"x", timestamp=timestamp)
        async with Watched(cluster) as consumer:
            partitions = await consumer.topic_partitions("orders")
            assert partitions == tuple(ORDERS[:3])
            assert await consumer.offsets(partitions, "oldest") == dict.fromkeys(partitions, 0)
            assert await consumer.offsets(partitions, "newest") == dict(zip(partitions, [0, 1, 2], strict=True))
            assert await consumer.offsets(partitions, 105) == dict(zip(partitions, [0, 1, 1], strict=True))
            assert await consumer.offsets(partitions, 0) == dict.fromkeys(partitions, 0)
            backward = partitions[::-1]
            assert list((await consumer.offsets(backward, 105)).items()) == list(zip(backward, [1, 1, 0], strict=True))
            with pytest.raises(ValueError, match="at='latest'"):
                await consumer.offsets(partitions, "latest")  # type: ignore[arg-type]


async def test_message_during_a_look_up_by_time_is_not_skipped(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log end is requested before the time, so it cannot skip a message that is written in between."""
    requested: list[int] = []

    def produce_behind(request: Any, _: Any) -> None:
        requested.append(request.topics[0].partitions[0].timestamp)
        cluster.produce("orders", 0, b"late", timestamp=2_000)

    async with orders() as cluster, deadline():
        cluster.produce("orders", 0, b"early", timestamp=10)
        edit_answers(monkeypatch, Api.LIST_OFFSETS, produce_behind)
        async with Watched(cluster) as consumer:
            assert await consumer.offsets(ORDERS[:1], 5_000) == {ORDERS[0]: 1}
            assert requested == [-1, 5_000]


async def test_unknown_topic_is_an_error(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        async with Watched(cluster, bootstrap_timeout=3.0) as consumer:
            began = trio.current_time()
            with pytest.raises(UnknownTopicError, match="invoices"):
                async with consumer.consume_partition("invoices", 0):
                    pass
            assert trio.current_time() - began < 4
            with pytest.raises(UnknownTopicError, match="invoices"):
                await consumer.topic_partitions("invoices")


async def test_unknown_partition_is_an_error_at_once(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        async with Watched(cluster) as consumer:
            began = trio.current_time()
            with pytest.raises(UnknownTopicError, match=r"orders-2.*has the partitions 0 to 1"):
                async with consumer.consume_partitions(ORDERS[:3]):
                    pass
            with pytest.raises(UnknownTopicError):
                await consumer.offsets(ORDERS[:3], "oldest")
            assert trio.current_time() - began < 1
            assert not consumer.claims


async def test_cluster_that_does_not_answer_is_an_error(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        await cluster.stop_broker(0)
        async with Watched(cluster) as consumer:
            with pytest.raises(ConnectError):
                await consumer.topic_partitions("orders")


@pytest.mark.parametrize("start", [-1, True, 2**63, 1.0, "latest", b"oldest"])
async def test_invalid_start_is_refused(autojump_clock: MockClock, start: Any) -> None:
    async with orders() as cluster, Watched(cluster, "g") as consumer:
        with pytest.raises(ValueError, match="orders-0 cannot start at"):
            async with consumer.consume_partition("orders", 0, start):
                pass


@pytest.mark.parametrize("partitions", ["orders", [("orders",)], [("orders", "0")], [0]])
async def test_invalid_partition_is_refused(autojump_clock: MockClock, partitions: Any) -> None:
    async with orders() as cluster, Watched(cluster) as consumer:
        with pytest.raises(TypeError, match="is no TopicPartition"):
            async with consumer.consume_partitions(partitions):
                pass


async def test_unsendable_topic_is_refused_and_others_are_read(autojump_clock: MockClock) -> None:
    """Metadata requests contain every topic that was ever requested."""
    async with orders() as cluster, Watched(cluster) as consumer, deadline(5.0):
        fill(cluster, 1)
        with pytest.raises(ConfigError, match="not UTF-8"):
            await consumer.topic_partitions("caf\udce9")
        with pytest.raises(ConfigError, match="not UTF-8"):
            async with consumer.consume_partition("caf\udce9", 0):
                pass
        async with consumer.consume_partition("orders", 0, "oldest") as claim:
            assert (await anext(aiter(claim))).offset == 0


def test_invalid_arguments_are_refused_before_any_io() -> None:
    for group_id in ("", "g\udcff"):
        with pytest.raises(ConfigError, match="group_id"):
            Consumer("localhost:9092", group_id=group_id)
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Consumer("localhost")


async def test_consumer_outside_its_block_is_refused(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        consumer = Watched(cluster, "g")
        with pytest.raises(RuntimeError, match="inside its block"):
            await consumer.topic_partitions("orders")
        async with consumer:
            pass
        with pytest.raises(RuntimeError, match="inside its block"):
            await consumer.commit()
        with pytest.raises(RuntimeError, match="inside its block"):
            async with consumer.consume_partition("orders", 0):
                pass


async def test_error_of_the_block_is_raised_unchanged(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        with pytest.raises(KeyError, match="mine"):
            async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0):
                raise KeyError("mine")


async def test_paused_partition_resumes_where_it_stopped(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        async with Watched(cluster) as consumer, consumer.consume_partition("orders", 0, "oldest") as claim:
            assert len(await take(claim, 4)) == 4
            consumer.pause([ORDERS[0], ORDERS[1]])
            with trio.move_on_after(60) as waiting:
                await take(claim, 1)
            assert waiting.cancelled_caught
            consumer.resume([ORDERS[0]])
            assert await offsets_of(claim, 6) == [4, 5, 6, 7, 8, 9]
            async with consumer.consume_partition("orders", 1, "oldest") as other:
                assert other.is_paused
