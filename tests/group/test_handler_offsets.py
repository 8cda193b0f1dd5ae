"""Start offsets and commit metadata that the handler sets itself. Virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommittedOffset,
    HandlerError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    Session,
    TopicPartition,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimStarted, OffsetReset
from tests.group.kit import (
    Recorder,
    claim_failure,
    committed,
    deadline,
    eventually,
    failure,
    fill,
    orders,
    start_member,
)

ORDERS_0 = TopicPartition("orders", 0)


# -- start offsets ---------------------------------------------------------------------------------------


class FixedStart(Recorder):
    def __init__(self, start: Any) -> None:
        super().__init__()
        self._start = start

    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> Any:
        return self._start


async def test_start_offset_with_metadata_commits_nothing(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = FixedStart(CommittedOffset(7, "a note"))
        gate = trio.Event()

        async def wait(session: Session, claim: Claim, message: Any) -> None:
            await gate.wait()

        handler._on_message = wait
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: bool(handler.messages))
        assert [(e.offset, e.why) for e in member.seen(ClaimStarted)] == [(7, "handler")]
        await trio.sleep(30)
        assert committed(cluster) == {}
        gate.set()
        await handler.received(3)
        await member.close()
        assert cluster.committed("g")[ORDERS_0] == CommittedOffset(10, "", 0)
        assert handler.offsets("orders", 0) == [7, 8, 9]


@pytest.mark.parametrize(("start", "is_detected"), [(CommittedOffset(20, "", 0), True), (20, False)])
async def test_start_with_an_epoch_is_checked_before_anything_is_read(
    autojump_clock: MockClock, start: Any, is_detected: bool
) -> None:
    """Without an epoch, a log that was truncated below the offset and has grown beyond it looks complete."""
    async with orders(1, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        assert cluster.log("orders", 0).leader_epoch == 0
        cluster.truncate("orders", 0, 15)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 10)
        handler = FixedStart(start)
        member = await start_member(nursery, cluster, handler)
        if is_detected:
            await member.ended.wait()
            error = claim_failure(member)
            assert isinstance(error, LogTruncatedError)
            assert (error.offset, error.diverging_offset) == (20, 15)
            assert handler.messages == []
        else:
            await handler.received(5)


async def test_start_beyond_the_log_is_out_of_range(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        member = await start_member(nursery, cluster, FixedStart(CommittedOffset(9)))
        await member.ended.wait()
        assert isinstance(claim_failure(member), OffsetOutOfRangeError)


@pytest.mark.parametrize(
    "start", [-1, True, "7", 7.0, CommittedOffset(-1), CommittedOffset(7, "", -2), CommittedOffset(7, "", "0")]
)
async def test_invalid_start_offset_is_refused(autojump_clock: MockClock, start: Any) -> None:
    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, FixedStart(start))
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, HandlerError)
        assert "must be an offset (an int), a CommittedOffset or None" in str(error)


# -- commit metadata -------------------------------------------------------------------------------------

LANDED = {"offset_out_of_range": "oldest"}


class Lands(Recorder):
    """A handler that marks each batch with metadata, as a sink does. It starts at `start`."""

    def __init__(self, start: CommittedOffset | None = None) -> None:
        super().__init__()
        self._start = start
        self.missing: list[tuple[int, int]] = []
        self.claims: list[Claim] = []

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> CommittedOffset | None:
        return self._start

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claims.append(claim)
        expected = claim.initial_offset
        async for batch in claim.batches():
            if batch.from_offset != expected:
                self.missing.append((expected, batch.from_offset))
            expected = batch.next_offset
            self.messages += batch
            session.mark_offset(claim.topic, claim.partition, expected, f"landed to {expected}")


async def let_retention_overtake(cluster: EmbeddedCluster, member: Any, before: int, start: int) -> None:
    """Let retention delete all records up to `start`, the log end, while the member is paused. It has read up to
    `before`."""
    member.group.pause_all()
    await trio.sleep(5)
    fill(cluster, start - before)
    cluster.delete_records("orders", 0, start)
    member.group.resume_all()
    await eventually(lambda: bool(member.seen(OffsetReset)))


async def test_commit_metadata_survives_a_reset_position(autojump_clock: MockClock) -> None:
    """A commit beyond the landed offset, not marked by the handler, would make the next owner stop, or skip records."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Lands()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0, **LANDED)
        await eventually(lambda: cluster.committed("g").get(ORDERS_0) == CommittedOffset(20, "landed to 20"))
        await let_retention_overtake(cluster, member, 20, 50)
        await trio.sleep(5)
        assert cluster.committed("g")[ORDERS_0] == CommittedOffset(20, "landed to 20")
        fill(cluster, 10)
        await eventually(lambda: cluster.committed("g").get(ORDERS_0) == CommittedOffset(60, "landed to 60"))
        assert handler.missing == [(20, 50)]
        assert handler.offsets("orders", 0) == [*range(20), *range(50, 60)]


@pytest.mark.parametrize("has_metadata", [True, False])
async def test_claim_with_metadata_commits_nothing_for_a_reset(autojump_clock: MockClock, has_metadata: bool) -> None:
    """A table has everything up to offset 20, but nothing is committed yet."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 50)
        cluster.delete_records("orders", 0, 50)
        handler = Lands(CommittedOffset(20, "landed to 20" if has_metadata else ""))
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0, **LANDED)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        await trio.sleep(5)
        assert committed(cluster) == ({} if has_metadata else {"orders-0": 50})
        assert (handler.claims[0].from_offset, handler.claims[0].position) == (50, 50), "visible without any message"
        fill(cluster, 5)
        await eventually(lambda: cluster.committed("g").get(ORDERS_0) == CommittedOffset(55, "landed to 55"))
        assert handler.missing == [(20, 50)]


async def test_gap_before_the_position_is_empty_unless_it_was_reset(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Lands()
        await start_member(nursery, cluster, handler, isolation_level="read_committed")
        cluster.produce_transactional("orders", 0, b"aborted", producer_id=1)
        cluster.end_transaction(1, commit=False)
        await eventually(lambda: bool(handler.claims) and handler.claims[0].position == 7)
        assert handler.claims[0].from_offset == 5


async def test_mark_at_the_committed_offset_commits_other_metadata(autojump_clock: MockClock) -> None:
    """A sink that finds older metadata at its head's offset commits the head's."""

    class MarksStart(Recorder):
        def __init__(self, note: str) -> None:
            super().__init__()
            self._metadata = note

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            if claim.initial_offset:
                session.mark_offset(claim.topic, claim.partition, claim.initial_offset, self._metadata)
            await super().consume_claim(session, claim)

    async def run(note: str) -> CommittedOffset:
        async with trio.open_nursery() as nursery:
            member = await start_member(nursery, cluster, MarksStart(note))
            await eventually(lambda: bool(member.seen(ClaimStarted)))
            await trio.sleep(10)
            await member.close()
        return cluster.committed("g")[ORDERS_0]

    async with orders() as cluster, deadline():
        fill(cluster, 5)
        assert await run("unused: the claim starts at 0") == CommittedOffset(5, "", 0)
        assert await run("link 7") == CommittedOffset(5, "link 7", 0)
        assert await run("") == CommittedOffset(5, "link 7", 0)
        assert await run("link 8") == CommittedOffset(5, "link 8", 0)
