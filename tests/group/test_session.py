"""The parts of a session: order, offsets, marks, commits. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommittedOffset,
    ConsumerGroupHandler,
    Message,
    Session,
    TopicPartition,
)
from sarameya.observe import (
    ClaimStarted,
)
from tests.group.kit import Recorder, committed, deadline, fill, orders, start_member


async def test_session_runs_setup_claims_cleanup_in_order_and_commits(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 10, 0)
        fill(cluster, 5, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(15)
        await member.close()
        assert handler.calls[0] == "setup"
        assert sorted(handler.calls[1:3]) == ["claim orders-0", "claim orders-1"]
        assert sorted(handler.calls[3:5]) == ["end orders-0", "end orders-1"]
        assert handler.calls[5:] == ["cleanup"]
        assert handler.offsets("orders", 0) == list(range(10))
        assert committed(cluster) == {"orders-0": 10, "orders-1": 5}
        assert member.error is None


async def test_session_has_its_generation_member_id_and_claims(autojump_clock: MockClock) -> None:
    async with orders(3) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        session = handler.sessions[0]
        assert session.claims == {"orders": (0, 1, 2)}
        assert (session.group, session.generation) == ("g", 1)
        assert session.member_id in str(cluster.describe_group("g"))


async def test_new_session_starts_at_the_committed_offsets(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        first = Recorder()
        member = await start_member(nursery, cluster, first)
        await first.received(5)
        await member.close()
        fill(cluster, 3)
        second = Recorder()
        await start_member(nursery, cluster, second)
        await second.received(3)
        assert second.offsets("orders", 0) == [5, 6, 7]


async def test_autocommit_commits_marks_while_the_session_runs(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder()
        await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await handler.received(5)
        await trio.sleep(1.5)
        assert committed(cluster) == {"orders-0": 5}


async def test_without_autocommit_only_commit_commits(autojump_clock: MockClock) -> None:
    async def commit_at_three(session: Session, claim: Claim, message: Message) -> None:
        if message.offset == 3:
            await session.commit()  # the marks so far: up to and including offset 2

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder(commit_at_three)
        member = await start_member(nursery, cluster, handler, autocommit=False)
        await handler.received(5)
        await trio.sleep(30)
        await member.close()
        assert committed(cluster) == {"orders-0": 3}


async def test_resolved_newest_start_is_committed_before_any_mark(autojump_clock: MockClock) -> None:
    """sarama does not commit it, so a rejoin before the first mark skips messages that were written meanwhile."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        first = Recorder()
        member = await start_member(nursery, cluster, first, offset_initial="newest")
        await first.until(lambda: "claim orders-0" in first.calls)
        await member.close()
        assert committed(cluster) == {"orders-0": 5}
        fill(cluster, 2)
        second = Recorder()
        await start_member(nursery, cluster, second, offset_initial="newest")
        await second.received(2)
        assert second.offsets("orders", 0) == [5, 6]


async def test_start_offset_of_the_handler_overrules_the_commit(autojump_clock: MockClock) -> None:
    arguments: list[tuple[TopicPartition, CommittedOffset | None]] = []

    class StartsAtSeven(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            arguments.append((partition, committed))
            return 7 if partition.partition == 0 else None

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 10, 0)
        fill(cluster, 2, 1)
        handler = StartsAtSeven()
        member = await start_member(nursery, cluster, handler)
        await handler.received(5)
        assert handler.offsets("orders", 0) == [7, 8, 9]
        assert handler.offsets("orders", 1) == [0, 1]
        assert arguments == [(TopicPartition("orders", 0), None), (TopicPartition("orders", 1), None)]
        reasons = {e.partition.partition: e.why for e in member.seen(ClaimStarted)}
        assert reasons == {0: "handler", 1: "oldest"}


async def test_mark_of_a_partition_that_is_not_claimed_raises(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(ValueError, match="orders-9 is not claimed"):
            handler.sessions[0].mark_offset("orders", 9, 1)
        with pytest.raises(ValueError, match="other-0 is not claimed"):
            handler.sessions[0].reset_offset("other", 0, 1)


async def test_reset_offset_lets_the_next_session_read_again(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 6)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(6)
        handler.sessions[0].reset_offset("orders", 0, 2, "replay")
        await member.close()
        assert cluster.committed("g")[TopicPartition("orders", 0)].metadata == "replay"
        assert committed(cluster) == {"orders-0": 2}


async def test_commit_contains_metadata_and_leader_epoch(autojump_clock: MockClock) -> None:
    class Annotates(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                session.mark_message(message, f"at {message.offset}")
                await session.commit()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 2)
        await start_member(nursery, cluster, Annotates())
        await trio.sleep(5)
        assert cluster.committed("g")[TopicPartition("orders", 0)] == CommittedOffset(2, "at 1", 0)
