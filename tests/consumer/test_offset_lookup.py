"""Offset lookups from several leaders, some of which do not respond. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import Config, ErrorCode, Event, LogRange, TopicPartition
from sarameya.consumer.offset_lookup import OffsetLookup, Place
from sarameya.embedded import EmbeddedCluster
from sarameya.errors import KafkaError, RetriesExhaustedError, TopicAuthorizationError
from sarameya.group.runtime import open_runtime
from sarameya.net.log_offsets import LogOffset
from sarameya.observe import Retrying
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import deadline, fill, orders

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]


@attrs.define
class OpenLookup:
    lookup: OffsetLookup
    events: list[Event]


@asynccontextmanager
async def open_lookup(cluster: EmbeddedCluster, **options: Any) -> AsyncIterator[OpenLookup]:
    config, events = Config(**options), []
    async with open_runtime(
        "", cluster.bootstrap_servers, config, events.append, Backoff.of(config), cluster.transport, lambda: 1000.0
    ) as runtime:
        await runtime.metadata.wait_for_topics(["orders"])
        lookup = OffsetLookup(
            runtime.pool, runtime.metadata, config, runtime.observer, runtime.backoff, runtime.wall_clock
        )
        yield OpenLookup(lookup, events)


def two_brokers() -> EmbeddedCluster:
    """Return a cluster whose broker 0 leads partitions 0 and 2, and whose broker 1 leads 1 and 3."""
    return orders(4, brokers=2)


async def seconds_until_found(lookup: OffsetLookup, wanted: Mapping[TopicPartition, Place]) -> dict[int, float]:
    """Return the seconds until each partition's offset was found."""
    began = trio.current_time()
    times: dict[int, float] = {}

    async def take(found: Mapping[TopicPartition, int]) -> None:
        for partition in found:
            assert partition.partition not in times, "each partition is found once"
            times[partition.partition] = trio.current_time() - began

    await lookup.find_each(wanted, take)
    return times


@pytest.mark.parametrize("place", ["oldest", "newest", timedelta(seconds=1), 500])
async def test_hanging_broker_does_not_delay_other_partitions(autojump_clock: MockClock, place: Place) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster, request_timeout=30.0) as at:
        cluster.drop_next(Api.LIST_OFFSETS, hang_up=False, broker_id=0)
        times = await seconds_until_found(at.lookup, dict.fromkeys(PARTITIONS, place))
        assert times[1] == times[3] < 1
        assert 30 < times[0] == times[2] < 35


async def test_retried_partition_does_not_wait_for_a_hanging_broker(autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster, request_timeout=30.0) as at:
        cluster.drop_next(Api.LIST_OFFSETS, hang_up=False, broker_id=0)
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, 3, broker_id=1)
        times = await seconds_until_found(at.lookup, dict.fromkeys(PARTITIONS, "newest"))
        assert times[1] == times[3] < 3
        retries = [e.attempt for e in at.events if isinstance(e, Retrying) and "LEADER_NOT_AVAILABLE" in e.cause]
        assert retries == [1, 2, 3]


async def test_results_are_taken_while_others_are_pending(
    autojump_clock: MockClock,
) -> None:
    rounds: list[list[int]] = []

    async def take(found: Mapping[TopicPartition, int]) -> None:
        rounds.append(sorted(partition.partition for partition in found))
        await trio.sleep(10)

    async with orders(4, brokers=4) as cluster, deadline(), open_lookup(cluster, request_timeout=30.0) as at:
        for broker, seconds in enumerate((0, 1, 2, 15)):
            cluster.delay_next(Api.LIST_OFFSETS, seconds, broker_id=broker)
        await at.lookup.find_each(dict.fromkeys(PARTITIONS, "newest"), take)
        assert rounds == [[0], [1, 2], [3]]


async def test_moved_partition_is_looked_up_at_its_new_leader(autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster) as at:
        fill(cluster, 5, 0)
        cluster.move_leader("orders", 0, 1)
        assert (await at.lookup.find({PARTITIONS[0]: "newest"}))[PARTITIONS[0]].offset == 5


async def test_different_places_are_found_in_one_lookup(autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster) as at:
        for partition in range(4):
            for second in range(995, 1000):
                cluster.produce("orders", partition, b"x", timestamp=second * 1000)
        cluster.delete_records("orders", 0, 1)
        places: list[Place] = ["oldest", "newest", timedelta(seconds=3), 1_000_000]
        found = await at.lookup.find(dict(zip(PARTITIONS, places, strict=True)))
        assert [(tp, place.offset) for tp, place in found.items()] == list(zip(PARTITIONS, [1, 5, 2, 5], strict=True))


async def test_looked_up_offset_has_its_epoch(
    autojump_clock: MockClock,
) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster) as at:
        fill(cluster, 5, 0)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5, 0)
        places = {tp: (await at.lookup.find({tp: at_}))[tp] for tp, at_ in [(PARTITIONS[0], "newest")]}
        epoch = cluster.log("orders", 0).leader_epoch
        assert epoch > 0
        assert places == {PARTITIONS[0]: LogOffset(10, epoch, epoch)}
        assert (await at.lookup.find({PARTITIONS[0]: "oldest"}))[PARTITIONS[0]] == LogOffset(0, 0, epoch)


async def test_lookup_of_no_partition_returns_nothing(autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster) as at:
        assert await at.lookup.find({}) == {}


async def test_permanent_error_is_raised_though_a_broker_hangs(autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, deadline(20), open_lookup(cluster, request_timeout=30.0) as at:
        cluster.drop_next(Api.LIST_OFFSETS, hang_up=False, broker_id=0)
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, broker_id=1)
        with pytest.raises(TopicAuthorizationError):
            await at.lookup.find(dict.fromkeys(PARTITIONS, "newest"))


async def test_bounded_retries_are_counted_for_each_leader(autojump_clock: MockClock) -> None:
    async with two_brokers() as cluster, deadline(), open_lookup(cluster, retry_max_attempts=3) as at:
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, 3, broker_id=0)
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, 3, broker_id=1)
        assert len(await at.lookup.find(dict.fromkeys(PARTITIONS, "newest"))) == 4
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, None, broker_id=0)
        with pytest.raises(RetriesExhaustedError):
            await at.lookup.find(dict.fromkeys(PARTITIONS, "newest"))


async def test_exception_of_the_callback_ends_the_lookup_unchanged(autojump_clock: MockClock) -> None:
    async def refuse(_: object) -> None:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "commit")

    async with two_brokers() as cluster, deadline(20), open_lookup(cluster, request_timeout=30.0) as at:
        cluster.drop_next(Api.LIST_OFFSETS, hang_up=False, broker_id=0)
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            await at.lookup.find_each(dict.fromkeys(PARTITIONS, "newest"), refuse)


async def test_response_without_an_offset_is_retried(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = 0

    def omit_the_first_offset(_: Any, answer: Any) -> None:
        nonlocal answers
        answers += 1
        if answers == 1:
            answer.topics[0].partitions[0].offset = -1

    async with orders(1) as cluster, deadline(), open_lookup(cluster) as at:
        fill(cluster, 5)
        edit_answers(monkeypatch, Api.LIST_OFFSETS, omit_the_first_offset)
        assert (await at.lookup.find({PARTITIONS[0]: "newest"}))[PARTITIONS[0]].offset == 5
        assert answers == 2


async def test_range_of_a_log_counts_open_transactions(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    async with orders(1) as cluster, deadline(), open_lookup(cluster, isolation_level="read_committed") as at:
        edit_answers(monkeypatch, Api.LIST_OFFSETS, lambda request, _: levels.append(request.isolation_level))
        fill(cluster, 5)
        cluster.delete_records("orders", 0, 2)
        assert await at.lookup.log_range(PARTITIONS[0]) == LogRange(2, 5)
        assert levels == [0, 0]
        await at.lookup.find({PARTITIONS[0]: "newest"})
        assert levels == [0, 0, 1]
