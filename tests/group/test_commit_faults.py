"""Commits in which one partition fails, for a while or for good: the others are committed. Virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommitError,
    ErrorCode,
    KafkaError,
    Message,
    MessageHandler,
    SarameyaError,
    Session,
    UnknownTopicError,
)
from sarameya.observe import CommitFailed, Retrying
from sarameya.protocol.commit_metadata import LONGEST, metadata_fault
from sarameya.protocol.versions import Api
from sarameya.testing import CoordinatorConfig, memory_cluster
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, claim_failure, committed, deadline, eventually, fill, orders, start_member


class Commits(Recorder):
    """A handler that marks each message with the `metadata` of its partition, and commits it at once."""

    def __init__(self, metadata: Callable[[int], Any] = lambda partition: "") -> None:
        super().__init__(self.commit)
        self.errors: list[SarameyaError] = []
        self._metadata = metadata

    async def commit(self, session: Session, claim: Claim, message: Message) -> None:
        session.mark_message(message, self._metadata(message.partition))
        try:
            await session.commit()
        except SarameyaError as error:
            self.errors.append(error)


@pytest.mark.parametrize("times", [1, 3])
async def test_fault_45_unknown_topic_on_a_commit_is_retried(autojump_clock: MockClock, times: int) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 1, 0)
        fill(cluster, 1, 1)
        handler = Commits()
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, times)
        member = await start_member(nursery, cluster, handler, autocommit=False)
        with trio.fail_after(5.0):
            await handler.received(2)
            await handler.until(lambda: committed(cluster) == {"orders-0": 1, "orders-1": 1})
        assert handler.errors == []
        assert [e for e in member.seen(Retrying) if "UNKNOWN_TOPIC_OR_PARTITION" in e.cause]
        await member.close()
        assert member.error is None


async def test_fault_45_unknown_topic_fails_only_its_commit(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report_unknown_topic(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.partition_index == 1:
                    partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async with orders(2) as cluster, deadline() as nursery:
        handler = Commits()
        await start_member(nursery, cluster, handler, autocommit=False)
        await handler.until(lambda: {"claim orders-0", "claim orders-1"} <= set(handler.calls))
        edit_answers(monkeypatch, Api.OFFSET_COMMIT, report_unknown_topic)
        fill(cluster, 1, 0)
        fill(cluster, 1, 1)
        with trio.fail_after(5.0):
            await handler.until(lambda: bool(handler.errors) and len(handler.messages) == 2)
        assert isinstance(handler.errors[0], UnknownTopicError)
        assert "commit of orders-1" in str(handler.errors[0])
        assert committed(cluster)["orders-0"] == 1


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        ("\ud800", ErrorCode.INVALID_REQUEST, r"has '\ud800' at index 0"),
        ("a\udcff", ErrorCode.INVALID_REQUEST, r"has '\udcff' at index 1"),
        (b"bytes", ErrorCode.INVALID_REQUEST, "must be text, and is b'bytes'"),
        (7, ErrorCode.INVALID_REQUEST, "must be text, and is 7"),
        ("x" * 5000, ErrorCode.OFFSET_METADATA_TOO_LARGE, "shorten the metadata"),
        ("x" * (LONGEST + 1), ErrorCode.OFFSET_METADATA_TOO_LARGE, "has 32,768 bytes; shorten it"),
        ("é" * 20_000, ErrorCode.OFFSET_METADATA_TOO_LARGE, "has 40,000 bytes; shorten it"),
    ],
)
async def test_fault_46_invalid_metadata_fails_only_its_commit(
    autojump_clock: MockClock, metadata: Any, code: ErrorCode, text: str
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 1, 0)
        fill(cluster, 1, 1)
        handler = Commits(lambda partition: metadata if partition == 1 else "fine")
        member = await start_member(nursery, cluster, handler, autocommit=False)
        with trio.fail_after(1.0):
            await handler.received(2)
            await handler.until(lambda: bool(handler.errors))
        error = handler.errors[0]
        assert isinstance(error, KafkaError)
        assert not isinstance(error, CommitError)
        assert error.code == code
        assert text in str(error)
        assert "commit of orders-1" in str(error)
        assert committed(cluster) == {"orders-0": 1, "orders-1": 0}
        assert not member.seen(Retrying)


@pytest.mark.parametrize("limit", [0, 100, 400])
async def test_metadata_of_unfinished_messages_fits_brokers_limit(autojump_clock: MockClock, limit: int) -> None:
    """Otherwise no offset of the partition is committed while one of its messages is unfinished."""

    class Gaps(MessageHandler):
        ordering = "none"
        concurrency = 1000

        async def handle(self, message: Message) -> None:
            if message.offset >= 10 and message.offset % 2 == 0:
                await trio.sleep_forever()

    groups = CoordinatorConfig(offset_metadata_max_size=limit)
    async with memory_cluster({"orders": 1}, groups=groups) as cluster, deadline() as nursery:
        fill(cluster, 300)
        member = await start_member(nursery, cluster, Gaps())
        with trio.fail_after(60):
            await eventually(lambda: committed(cluster).get("orders-0") == 10)
            await eventually(lambda: member.group.status().partitions[0].in_flight > 70)
            await eventually(lambda: any("OFFSET_METADATA_TOO_LARGE" in event.cause for event in member.seen(Retrying)))
        assert not member.seen(CommitFailed)
        await member.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_fault_46_uncaught_metadata_error_fails_the_member(autojump_clock: MockClock, strategy: str) -> None:
    """Otherwise it would receive the same message in each generation, forever."""

    async def mark(session: Session, claim: Claim, message: Message) -> None:
        session.mark_message(message, "\ud800")
        await session.commit()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        member = await start_member(nursery, cluster, Recorder(mark), rebalance_strategies=(strategy,))
        with trio.fail_after(5.0):
            await member.ended.wait()
        assert isinstance(claim_failure(member), KafkaError)


async def test_fault_46_autocommit_commits_the_other_partitions(autojump_clock: MockClock) -> None:
    async def mark(session: Session, claim: Claim, message: Message) -> None:
        session.mark_message(message, "\ud800" if message.partition == 1 else "fine")

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 1, 0)
        fill(cluster, 1, 1)
        handler = Recorder(mark)
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await handler.received(2)
        await trio.sleep(1.5)
        assert committed(cluster) == {"orders-0": 1, "orders-1": 0}
        assert "orders-1" in member.seen(CommitFailed)[0].cause
        assert not member.seen(Retrying)


def test_valid_metadata_has_no_fault() -> None:
    for metadata in ("", "a", "é\n\0😀", "x" * LONGEST, None):
        assert metadata_fault(metadata) is None
