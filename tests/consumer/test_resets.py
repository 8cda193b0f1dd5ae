"""Positions outside the log, reset by the policy. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from trio.testing import MockClock

from sarameya import (
    Config,
    ErrorCode,
    LogRange,
    LogTruncatedError,
    OffsetOutOfRangeError,
    RetriesExhaustedError,
    TopicConfig,
    TopicPartition,
)
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.resets import OUT_OF_RANGE, TRUNCATED, Resets
from sarameya.net.log_offsets import LogOffset
from sarameya.observe import OffsetReset, Retrying
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Truncated
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import (
    Recorder,
    claim_failure,
    committed,
    deadline,
    eventually,
    fill,
    orders,
    start_member,
)

PARTITION = TopicPartition("orders", 0)


class From(Recorder):
    """Starts partition 0 at `offset`, and the others at 0."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset

    async def start_offset(self, partition: TopicPartition, committed: object) -> int:
        return self._offset if partition == PARTITION else 0


async def test_position_after_the_log_reset_to_oldest_reads_all(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        for _ in range(5):
            cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        handler = From(100)
        await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await handler.received(50)
        assert handler.offsets("orders", 0) == list(range(50))


async def test_position_after_the_log_reset_to_newest_reads_new_records(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 50)
        handler = From(100)
        member = await start_member(nursery, cluster, handler, offset_out_of_range="newest")
        await eventually(lambda: bool(member.seen(OffsetReset)))
        fill(cluster, 20)
        await handler.received(20)
        assert handler.offsets("orders", 0) == list(range(50, 70))


async def test_position_that_the_policy_chose_is_committed(autojump_clock: MockClock) -> None:
    """Records written while the group has no member must not be skipped by a second lookup of the policy."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        member = await start_member(nursery, cluster, From(100), offset_out_of_range="newest")
        await eventually(lambda: bool(member.seen(OffsetReset)))
        await member.close()
        assert committed(cluster) == {"orders-0": 10}


@pytest.mark.parametrize(("policy", "last_lookup"), [("fail", "log_range"), ("oldest", "find")])
async def test_session_that_ends_with_a_lookup_ends_in_order(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, policy: str, last_lookup: str
) -> None:
    look_up = getattr(OffsetLookup, last_lookup)
    handler = From(99)

    async def find_and_end(self: OffsetLookup, wanted: Any) -> Any:
        found = await look_up(self, wanted)
        if len(handler.sessions) == 1:
            handler.sessions[0].end("in the time slice of the response")
        return found

    monkeypatch.setattr(OffsetLookup, last_lookup, find_and_end)
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await handler.until(lambda: len(handler.sessions) == 2)
        if policy == "fail":  # the second session has time to raise it
            await member.ended.wait()
            assert isinstance(member.error, ExceptionGroup)
            (error,) = member.error.exceptions
            assert isinstance(error.__cause__, OffsetOutOfRangeError)
        else:
            await handler.received(3)
        assert handler.calls.count("cleanup") >= 1


@pytest.mark.parametrize(("policy", "first"), [(timedelta(seconds=30), 7), ("by_duration:PT1H", 5), (timedelta(0), 10)])
async def test_position_overtaken_by_retention_is_reset_by_duration(
    autojump_clock: MockClock, policy: object, first: int
) -> None:
    now = 1_000_000.0
    async with orders() as cluster, deadline() as nursery:
        for n in range(10):  # ten seconds from one to the next, the last one ten seconds ago
            cluster.produce("orders", 0, b"x", timestamp=int(now - 100 + 10 * n) * 1000)
        cluster.delete_records("orders", 0, 5)
        handler = From(2)
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy, wall_clock=lambda: now)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        [reset] = member.seen(OffsetReset)
        assert (reset.before, reset.after, reset.log_start, reset.log_end, reset.gone) == (2, first, 5, 10, 3)
        fill(cluster, 1)
        await handler.received(11 - first)
        assert handler.offsets("orders", 0) == list(range(first, 11))


async def test_topics_own_policy_overrides_the_members(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        cluster.delete_records("orders", 0, 5)
        handler = From(2)
        own = {"orders": TopicConfig(offset_out_of_range="oldest")}
        member = await start_member(nursery, cluster, handler, topic_configs=own)
        await handler.received(5)
        assert member.seen(OffsetReset) == [OffsetReset(PARTITION, 2, 5, "oldest", OUT_OF_RANGE, 5, 10, 3)]


@pytest.mark.parametrize("policy", ["fail", "oldest", "newest"])
async def test_position_that_the_log_has_is_not_reset(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A lagging or faulty broker is no reason to skip records that exist."""
    refused = 0

    def refuse_three(_: Any, answer: Any) -> None:
        nonlocal refused
        for topic in answer.responses:
            for partition in topic.partitions:
                if refused < 3:
                    refused += 1
                    partition.error_code, partition.records = ErrorCode.OFFSET_OUT_OF_RANGE, b""

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        edit_answers(monkeypatch, Api.FETCH, refuse_three)
        handler = From(4)
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await handler.received(6)
        assert handler.offsets("orders", 0) == list(range(4, 10))
        assert member.seen(OffsetReset) == []
        causes = [e.cause for e in member.seen(Retrying) if e.what == "fetch of orders-0"]
        assert causes == ["offset 4 is out of range, but is in the log [0, 10]"] * 3


async def test_broker_never_serving_its_log_exhausts_retries(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any, answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.error_code, partition.records = ErrorCode.OFFSET_OUT_OF_RANGE, b""

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        edit_answers(monkeypatch, Api.FETCH, refuse)
        member = await start_member(nursery, cluster, From(4), retry_max_attempts=3)
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, RetriesExhaustedError)
        assert "fetch of orders-0" in str(error)


# -- truncation, as the fetcher reports it -----------------------------------------------------------------


class Stub:
    """A lookup that returns the offsets of one log."""

    async def log_range(self, partition: TopicPartition) -> LogRange:
        return LogRange(10, 90)

    async def find(self, wanted: dict[TopicPartition, object]) -> dict[TopicPartition, LogOffset]:
        return {tp: LogOffset({"oldest": 10, "newest": 90}.get(policy, 50)) for tp, policy in wanted.items()}


def make_resets(policy: str) -> tuple[Resets, list[Any]]:
    reported: list[Any] = []
    config = Config(offset_out_of_range=policy)
    return Resets(Stub(), config, reported.append, Backoff.of(config), lambda *moved: reported.append(moved)), reported


def feed(position: int) -> PartitionConsumer:
    return PartitionConsumer(FetchCursor(PARTITION, position), 2, ByteBudget(2**20).open())


@pytest.mark.parametrize("policy", ["oldest", "newest", "by_duration:PT1H"])
async def test_truncated_log_is_read_from_the_divergence(policy: str) -> None:
    resets, reported = make_resets(policy)
    consumer = feed(100)
    assert await resets.truncated(consumer, Truncated(80, 3))
    assert (consumer.cursor.position, consumer.cursor.last_epoch) == (80, 3), (
        "the epoch is kept, since the log may be truncated again"
    )
    assert reported[1] == OffsetReset(PARTITION, 100, 80, policy, TRUNCATED, 10, 90, 0)


@pytest.mark.parametrize("diverging_offset", [80, None])
async def test_truncated_log_fails_its_claim_by_the_fail_policy(diverging_offset: int | None) -> None:
    resets, reported = make_resets("fail")
    consumer = feed(100)
    assert not await resets.truncated(consumer, Truncated(diverging_offset))
    with pytest.raises(LogTruncatedError) as caught:
        consumer.receive_nowait()
    error = caught.value
    assert (error.partition, error.offset, error.diverging_offset) == (PARTITION, 100, diverging_offset)
    assert reported == []


@pytest.mark.parametrize(("policy", "after"), [("oldest", 10), ("newest", 90), ("by_duration:PT1H", 50)])
async def test_truncation_at_an_unknown_offset_uses_the_policy(policy: str, after: int) -> None:
    resets, reported = make_resets(policy)
    consumer = feed(100)
    assert await resets.truncated(consumer, Truncated(None))
    assert consumer.cursor.position == after
    assert reported[1] == OffsetReset(PARTITION, 100, after, policy, TRUNCATED, 10, 90, 0)


@pytest.mark.parametrize("policy", ["fail", "oldest"])
async def test_ended_claim_is_neither_reset_nor_failed(policy: str) -> None:
    resets, reported = make_resets(policy)
    consumer = feed(100)
    consumer.end()
    assert not await resets.truncated(consumer, Truncated(80, 3))
    assert (consumer.cursor.position, reported, consumer.receive_nowait()) == (100, [], None)
