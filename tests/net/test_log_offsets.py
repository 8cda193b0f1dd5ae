"""Log offsets on a best-effort basis: the known offsets, and the reason for each partition without one."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Config, Event
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.apis import Call
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END, LOG_START, NO_SUCH_OFFSET, LogOffsets
from sarameya.observe import Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, on_request
from tests.group.kit import deadline, fill, orders

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


async def request_offsets(
    cluster: EmbeddedCluster, timestamp: int, *partitions: TopicPartition, **options: Any
) -> LogOffsets:
    config = Config(**{"request_timeout": 5.0, **options})
    async with GroupAdmin(cluster.bootstrap_servers, config, lambda event: None, cluster.transport) as admin:
        await admin.metadata({partition.topic for partition in partitions})
        return await admin.log_offsets(partitions, timestamp)


async def test_log_offsets_come_from_each_partitions_leader(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=2) as cluster, deadline():
        fill(cluster, 5, partition=0)
        fill(cluster, 3, partition=1)
        cluster.delete_records("orders", 0, 2)
        assert await request_offsets(cluster, LOG_START, FIRST, SECOND) == LogOffsets({FIRST: 2, SECOND: 0})
        assert await request_offsets(cluster, LOG_END, FIRST, SECOND) == LogOffsets({FIRST: 5, SECOND: 3})


async def test_timestamp_gives_the_first_message_at_or_after_it(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        for n in range(5):
            cluster.produce("orders", 0, b"%d" % n, timestamp=1000 + n)
        cluster.produce("orders", 1, b"old", timestamp=1)
        assert await request_offsets(cluster, 1003, FIRST, SECOND) == LogOffsets({FIRST: 3, SECOND: NO_SUCH_OFFSET})


async def test_no_partitions_give_no_offsets(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        assert await request_offsets(cluster, LOG_END) == LogOffsets({})


async def test_missing_partition_is_reported_at_once(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        missing = TopicPartition("nowhere", 0)
        began = trio.current_time()
        assert await request_offsets(cluster, LOG_END, FIRST, SECOND, missing) == LogOffsets(
            {FIRST: 0}, {SECOND: "no such partition", missing: "no such partition"}
        )
        assert trio.current_time() - began < 0.1


async def test_passing_error_code_is_retried(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
        assert await request_offsets(cluster, LOG_END, FIRST) == LogOffsets({FIRST: 0})


@pytest.mark.parametrize(
    ("code", "seconds"), [(ErrorCode.LEADER_NOT_AVAILABLE, (2, 5)), (ErrorCode.TOPIC_AUTHORIZATION_FAILED, (0, 0.1))]
)
async def test_lasting_error_is_reported_after_its_retries(
    autojump_clock: MockClock, code: ErrorCode, seconds: tuple[float, float]
) -> None:
    async with orders() as cluster, deadline():
        cluster.fail_next(Api.LIST_OFFSETS, code, 1000)
        began = trio.current_time()
        assert await request_offsets(cluster, LOG_END, FIRST) == LogOffsets({}, {FIRST: ErrorCode.describe(code)})
        assert seconds[0] <= trio.current_time() - began <= seconds[1]


async def test_retry_max_attempts_limits_the_attempts(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, 2)
        found = await request_offsets(cluster, LOG_END, FIRST, retry_max_attempts=1)
        assert found == LogOffsets({}, {FIRST: "LEADER_NOT_AVAILABLE (5)"})


async def test_partition_missing_in_a_response_is_reported(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def omit_partitions(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            topic.partitions = [part for part in topic.partitions if part.partition_index == 0]

    edit_answers(monkeypatch, Api.LIST_OFFSETS, omit_partitions)
    async with orders(2) as cluster, deadline():
        found = await request_offsets(cluster, LOG_END, FIRST, SECOND)
        assert found == LogOffsets({FIRST: 0}, {SECOND: "missing in the response"})


async def test_partition_without_leader_fails_alone(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():

        def leaderless(request: Any, answer: Any) -> None:
            for topic in answer.topics:
                for part in topic.partitions:
                    if part.partition_index == 1:
                        part.leader_id = -1

        with pytest.MonkeyPatch.context() as monkeypatch:
            edit_answers(monkeypatch, Api.METADATA, leaderless)
            found = await request_offsets(cluster, LOG_END, FIRST, SECOND)
        assert found == LogOffsets({FIRST: 0}, {SECOND: "the partition has no leader"})


async def test_next_leader_is_found_after_a_leader_stops(autojump_clock: MockClock) -> None:
    async with orders(1, brokers=2) as cluster, deadline():
        fill(cluster, 5)
        config = Config(request_timeout=5.0)
        async with GroupAdmin(cluster.bootstrap_servers, config, lambda event: None, cluster.transport) as admin:
            await admin.metadata(["orders"])
            await cluster.stop_broker(0)
            assert await admin.log_offsets([FIRST], LOG_END) == LogOffsets({FIRST: 5})


async def test_request_has_the_known_leader_epoch(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deposed leader that has not noticed it must not return its own log end (KIP-320)."""
    epochs: list[int] = []

    def record(call: Call) -> None:
        epochs.extend(part.current_leader_epoch for topic in call.body.topics for part in topic.partitions)

    on_request(monkeypatch, Api.LIST_OFFSETS, record)
    async with orders(2, brokers=2) as cluster, deadline():
        cluster.move_leader("orders", 0, 1)
        cluster.move_leader("orders", 0, 0)
        assert await request_offsets(cluster, LOG_END, FIRST) == LogOffsets({FIRST: 0})
        assert epochs == [2]


async def test_fenced_request_is_retried_with_the_current_epoch(
    autojump_clock: MockClock,
) -> None:
    observed: list[Event] = []
    async with orders(1, brokers=2) as cluster, deadline():
        async with GroupAdmin(cluster.bootstrap_servers, Config(), observed.append, cluster.transport) as admin:
            await admin.metadata(["orders"])
            cluster.move_leader("orders", 0, 1)
            cluster.move_leader("orders", 0, 0)
            fill(cluster, 5)
            assert await admin.log_offsets([FIRST], LOG_END) == LogOffsets({FIRST: 5})
            (retrying,) = observed
            assert isinstance(retrying, Retrying)
            assert retrying.cause == "orders-0: FENCED_LEADER_EPOCH (74)"
