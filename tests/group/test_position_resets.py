"""A position is moved back while the handler still has earlier messages: marks of these must not count for new ones.

Virtual time.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, LogTruncatedError, Message, Session
from sarameya.consumer.resets import TRUNCATED
from sarameya.observe import OffsetReset
from tests.group.kit import claim_failure, committed, deadline, eventually, fill, orders, start_member
from tests.group.standalone_kit import ORDERS, Watched, take


class Collector(ConsumerGroupHandler):
    """A handler that waits at message number `limit` until `go_on()`. Only the test marks messages."""

    def __init__(self, limit: int = 10**9) -> None:
        self.limit = limit
        self.messages: list[Message] = []
        self.session: Session | None = None
        self._may_go_on = trio.Event()

    def go_on(self) -> None:
        self._may_go_on.set()

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.session = session
        async for message in claim:
            self.messages.append(message)
            if len(self.messages) == self.limit:
                await self._may_go_on.wait()

    def mark(self, index: int) -> None:
        assert self.session is not None
        self.session.mark_message(self.messages[index])

    def offsets(self) -> list[int]:
        return [message.offset for message in self.messages]


RESET: dict[str, Any] = {"offset_out_of_range": "newest"}


async def test_late_mark_of_lost_records_stays_within_the_log(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector()
        member = await start_member(nursery, cluster, handler, **RESET)
        await eventually(lambda: len(handler.messages) == 100)
        handler.mark(29)
        cluster.truncate("orders", 0, 50)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        fill(cluster, 10)
        await eventually(lambda: len(handler.messages) == 110)
        handler.mark(99)  # the old message 99: only messages before offset 50 count as processed
        await eventually(lambda: committed(cluster) == {"orders-0": 50})
        handler.mark(102)
        await eventually(lambda: committed(cluster) == {"orders-0": 53})
        handler.mark(98)
        await trio.sleep(10)
        assert committed(cluster) == {"orders-0": 53}


async def test_late_mark_before_new_messages_stays_at_the_position(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector()
        member = await start_member(nursery, cluster, handler, **RESET)
        await eventually(lambda: len(handler.messages) == 100)
        handler.mark(79)
        await eventually(lambda: committed(cluster) == {"orders-0": 80})
        cluster.truncate("orders", 0, 50)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        await eventually(lambda: committed(cluster) == {"orders-0": 50})
        handler.mark(99)
        await trio.sleep(10)
        assert committed(cluster) == {"orders-0": 50}
        fill(cluster, 10)
        await eventually(lambda: len(handler.messages) == 110)
        handler.mark(-1)
        await eventually(lambda: committed(cluster) == {"orders-0": 60})


@pytest.mark.parametrize("marked", [0, 20])
async def test_unread_messages_are_not_committed_by_a_reset(autojump_clock: MockClock, marked: int) -> None:
    """A new member must get the messages that the log still has."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector(limit=21)
        member = await start_member(nursery, cluster, handler, **RESET)
        await eventually(lambda: len(handler.messages) == 21)
        if marked:
            handler.mark(marked - 1)
            await eventually(lambda: committed(cluster) == {"orders-0": marked})
        cluster.truncate("orders", 0, 50)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        fill(cluster, 10)
        await trio.sleep(10)
        assert committed(cluster) == {"orders-0": marked}
        handler.go_on()
        await eventually(lambda: len(handler.messages) == 110)
        assert handler.offsets() == [*range(100), *range(50, 60)]
        handler.mark(109)
        await eventually(lambda: committed(cluster) == {"orders-0": 60})


async def test_mark_beyond_the_position_before_a_reset_is_committed(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector()
        member = await start_member(nursery, cluster, handler, **RESET)
        await eventually(lambda: len(handler.messages) == 100)
        cluster.truncate("orders", 0, 50)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        fill(cluster, 60)
        await eventually(lambda: len(handler.messages) == 160)
        assert handler.session is not None
        handler.session.mark_offset("orders", 0, 500)  # beyond the log end, which is allowed
        await eventually(lambda: committed(cluster) == {"orders-0": 500})


async def test_records_deleted_by_retention_count_as_processed(autojump_clock: MockClock) -> None:
    """No member can read them any more. A new member starts at the same offset."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector(limit=21)
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await eventually(lambda: len(handler.messages) == 21)
        member.group.pause_all()
        await trio.sleep(1)  # fetched messages are kept; the next fetch is out of range
        fill(cluster, 100)
        cluster.delete_records("orders", 0, 150)
        member.group.resume_all()
        handler.go_on()
        await eventually(lambda: len(handler.messages) == 150)
        assert handler.offsets() == [*range(100), *range(150, 200)]
        [reset] = member.seen(OffsetReset)
        assert (reset.before, reset.after, reset.gone) == (100, 150, 50)
        handler.mark(99)
        await eventually(lambda: committed(cluster) == {"orders-0": 150})


async def test_new_claim_of_a_consumer_marks_beyond_a_truncation(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 100)
        async with Watched(cluster, "g", offset_initial="oldest", **RESET) as consumer:
            async with consumer.consume_partition("orders", 0) as claim:
                old = await take(claim, 100)
                cluster.truncate("orders", 0, 50)
                await eventually(lambda: bool(consumer.seen(OffsetReset)))
                fill(cluster, 10)
                await take(claim, 5)
                consumer.mark_message(old[-1])
                assert await consumer.committed(ORDERS[:1]) is not None
                await consumer.commit()
                assert committed(cluster) == {"orders-0": 50}
            async with consumer.consume_partition("orders", 0) as claim:
                fill(cluster, 100)
                for message in await take(claim, 20):
                    consumer.mark_message(message)
                await consumer.commit()
                assert committed(cluster) == {"orders-0": 70}


async def test_truncated_log_that_grew_is_read_from_the_truncation(
    autojump_clock: MockClock,
) -> None:
    """The position stays within the log, but the records before it are not those that were read (KIP-320)."""
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await eventually(lambda: len(handler.messages) == 100)
        handler.mark(29)
        cluster.truncate("orders", 0, 50)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 60)
        await eventually(lambda: len(handler.messages) == 160)
        assert handler.offsets() == [*range(100), *range(50, 110)]
        [reset] = member.seen(OffsetReset)
        assert (reset.before, reset.after, reset.reason) == (100, 50, TRUNCATED)
        handler.mark(99)
        await trio.sleep(10)
        assert committed(cluster) == {"orders-0": 100}, "by now the new message 99 has been delivered, too"


async def test_late_mark_of_truncated_records_stays_at_the_truncation(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector(limit=110)
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await eventually(lambda: len(handler.messages) == 100)
        cluster.truncate("orders", 0, 50)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 60)
        await eventually(lambda: len(handler.messages) == 110)
        assert [reset.reason for reset in member.seen(OffsetReset)] == [TRUNCATED]
        handler.mark(99)
        await eventually(lambda: committed(cluster) == {"orders-0": 50})
        handler.mark(104)
        await eventually(lambda: committed(cluster) == {"orders-0": 55})


async def test_truncated_log_with_policy_fail_fails_after_the_buffer(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Collector(limit=21)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.messages) == 21)
        await trio.sleep(10)
        cluster.truncate("orders", 0, 50)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 60)
        await trio.sleep(10)
        handler.go_on()
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, LogTruncatedError)
        assert (error.offset, error.diverging_offset) == (100, 50)
        assert handler.offsets() == [*range(100)]
