"""Handlers that hold records for too long are reported once, with a stack, and once when that is over."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Activity,
    Claim,
    ConsumerGroupHandler,
    GroupStatus,
    Session,
    Stream,
    StreamHandler,
)
from sarameya import TopicPartition as TP
from sarameya.group import claim as claim_module
from sarameya.group import stream as stream_module
from sarameya.group.delivery import time_slices
from sarameya.observe import HandlerOverdue, HandlerReturned
from tests.group.kit import deadline, eventually, fill, orders, start_member

ZERO, ONE = TP("orders", 0), TP("orders", 1)


class Stuck(ConsumerGroupHandler):
    """A handler that waits at one offset of partition 0 until `go_on` is set."""

    def __init__(self, at: int, **more: Any) -> None:
        self.at = at
        self.go_on = trio.Event()

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            if (message.partition, message.offset) == (0, self.at):
                await self.waits_for_somebody()
            session.mark_message(message)

    async def waits_for_somebody(self) -> None:
        await self.go_on.wait()


def row(status: GroupStatus, partition: TP = ZERO) -> Any:
    return next(one for one in status.partitions if one.partition == partition)


@pytest.mark.parametrize("more", [0, 1000], ids=["the-last-one", "backpressured"])
async def test_stuck_handler_is_reported_once_with_offset_and_stack(autojump_clock: MockClock, more: int) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Stuck(at=31)
        member = await start_member(nursery, cluster, handler, observers=[])
        fill(cluster, 32)
        fill(cluster, 5, partition=1)
        await trio.sleep(5)
        fill(cluster, more)
        await trio.sleep(15)
        assert row(member.group.status()).overdue is None, "not for less than 30 s"
        await trio.sleep(46)
        (event,) = member.seen(HandlerOverdue)
        assert (event.partition, event.offset, event.last_offset) == (ZERO, 31, 31)
        assert 30 <= event.seconds <= 36
        assert "waits_for_somebody" in event.stack
        assert str(event).startswith(f"handler has held orders-0 offset 31 for {event.seconds:.0f} s; its stack:\n")
        one = row(member.group.status())
        assert one.activity is (Activity.BACKPRESSURED if more else Activity.IN_HANDLER)
        assert 60 <= one.overdue.seconds <= 67
        assert one.reason == f"handler has held orders-0 offset 31 for {one.overdue.seconds:.0f} s"
        assert "waits_for_somebody" in one.overdue.stack
        assert row(member.group.status(), ONE).overdue is None
        handler.go_on.set()
        await trio.sleep(1)
        assert row(member.group.status()).overdue is None
        await eventually(lambda: bool(member.seen(HandlerReturned)))
        (over,) = member.seen(HandlerReturned)
        assert (over.partition, over.offset, over.last_offset) == (ZERO, 31, 31)
        assert 60 <= over.seconds <= 70
        await trio.sleep(200)
        assert len(member.seen(HandlerOverdue)) == len(member.seen(HandlerReturned)) == 1
        await member.close()


class SlowBatches(ConsumerGroupHandler):
    """A handler that takes `seconds` for each batch. It can mark meanwhile, or report that it lands."""

    def __init__(self, seconds: float, *, marks: bool = False, reports: bool = False) -> None:
        self.seconds = seconds
        self.marks = marks
        self.reports = reports

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for batch in claim.batches():
            if self.reports:
                with claim.report.doing(Activity.LANDING):
                    await trio.sleep(self.seconds)
            for message in batch:
                if not self.reports:
                    await trio.sleep(self.seconds / len(batch))
                if self.marks:
                    session.mark_message(message)
            session.mark_batch(batch)


async def test_overdue_batch_is_named_by_its_offsets(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        member = await start_member(nursery, cluster, SlowBatches(66.0))
        await trio.sleep(60)
        (event,) = member.seen(HandlerOverdue)
        assert (event.offset, event.last_offset) == (0, 9)
        assert str(event).startswith("handler has held orders-0 offsets 0 to 9 for 3")
        assert not member.seen(HandlerReturned)
        await member.close()


@pytest.mark.parametrize("how", [{"marks": True}, {"reports": True}])
async def test_handler_that_marks_or_reports_is_never_overdue(autojump_clock: MockClock, how: dict[str, bool]) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        member = await start_member(nursery, cluster, SlowBatches(200.0, **how))
        await trio.sleep(150)
        assert row(member.group.status()).overdue is None
        await trio.sleep(100)
        assert not member.seen(HandlerOverdue)
        await member.close()


async def test_handler_slow_with_every_batch_is_reported_once(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline(20_000) as nursery:
        member = await start_member(nursery, cluster, SlowBatches(60.0))
        for _ in range(20):
            fill(cluster, 3)
            await trio.sleep(40)
        assert len(member.seen(HandlerOverdue)) == 1
        assert not member.seen(HandlerReturned)
        await trio.sleep(2000)
        assert len(member.seen(HandlerReturned)) == 1
        await member.close()


async def test_limit_grows_with_max_processing_time(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Stuck(at=0)
        member = await start_member(nursery, cluster, handler, max_processing_time=10.0)
        fill(cluster, 1)
        await trio.sleep(95)
        assert not member.seen(HandlerOverdue)
        await trio.sleep(30)
        assert len(member.seen(HandlerOverdue)) == 1
        handler.go_on.set()
        await member.close()


async def test_overdue_handler_of_a_stopped_claim_is_reported_as_over(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Stuck(at=2))
        fill(cluster, 5)
        await trio.sleep(60)
        await member.close()  # which cancels it after its grace
        assert len(member.seen(HandlerOverdue)) == len(member.seen(HandlerReturned)) == 1


class StuckStream(StreamHandler):
    streams = 1

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for message in stream:
            if message.value == b"hang":
                await trio.sleep(100)
            session.mark_message(message)


async def test_overdue_stream_names_the_partition_that_blocks_it(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, StuckStream())
        fill(cluster, 3)
        fill(cluster, 3, partition=1)
        await trio.sleep(5)
        cluster.produce("orders", 1, b"hang")
        await trio.sleep(5)
        fill(cluster, 3)
        await trio.sleep(60)
        (event,) = member.seen(HandlerOverdue)
        assert (event.partition, event.offset) == (ONE, 3)
        assert "consume_stream" in event.stack
        waiting = row(member.group.status())
        assert (waiting.activity, waiting.overdue) == (Activity.BACKPRESSURED, None)
        assert waiting.reason.startswith("handler has held orders-1 offset 3 for 6")
        await eventually(lambda: bool(member.seen(HandlerReturned)))
        await member.close()


class Blocks:
    """Handlers that block the event loop for a second per message."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self.taken = 0

    async def read(self, session: Session, feed: Claim | Stream) -> None:
        async for message in feed:
            self.clock.jump(1.0)
            self.taken += 1
            session.mark_message(message)


class BlocksInClaims(Blocks, ConsumerGroupHandler):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        await self.read(session, claim)


class BlocksInStreams(Blocks, StreamHandler):
    streams = 50

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        await self.read(session, stream)


@pytest.mark.parametrize("kind", [BlocksInClaims, BlocksInStreams])
async def test_handler_that_waits_for_its_time_slice_is_not_overdue(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, kind: type[BlocksInClaims] | type[BlocksInStreams]
) -> None:
    """The handler has processed all its messages, and waits while all others have their time slices."""
    for module in (claim_module, stream_module, time_slices):
        monkeypatch.setattr(module, "perf_counter", autojump_clock.current_time)
    async with orders(50) as cluster, deadline() as nursery:
        for number in range(50):
            fill(cluster, 20, number)
        handler = kind(autojump_clock)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: handler.taken >= 200)
        assert not member.seen(HandlerOverdue)
        await member.close()
