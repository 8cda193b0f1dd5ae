"""Handlers that are slow, fail, or return. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    ClaimError,
    ErrorCode,
    Message,
    Session,
    TopicPartition,
)
from sarameya.observe import (
    ClaimStarted,
    Retrying,
    SessionEnding,
)
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, eventually, fill, orders, start_member


async def test_waiting_handler_keeps_its_membership(autojump_clock: MockClock) -> None:
    async def dawdle(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(3 * 10.0)

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Recorder(dawdle)
        member = await start_member(nursery, cluster, handler, session_timeout=10.0, heartbeat_interval=3.0)
        await eventually(lambda: committed(cluster).get("orders-0", 0) == 3)
        assert len(handler.sessions) == 1
        assert not member.seen(SessionEnding)


async def test_failing_claim_ends_the_session_and_is_raised(
    autojump_clock: MockClock,
) -> None:
    boom = ValueError("cannot handle this")

    async def fail_at_five(session: Session, claim: Claim, message: Message) -> None:
        if (message.partition, message.offset) == (1, 5):
            await trio.sleep(1)  # the other claim runs
            raise boom

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        fill(cluster, 10, 1)
        handler = Recorder(fail_at_five)
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        (failure,) = member.error.exceptions
        assert isinstance(failure, ClaimError)
        assert (failure.partition, failure.offset, failure.generation) == (TopicPartition("orders", 1), 6, 1)
        assert failure.__cause__ is boom
        assert handler.calls[-2:] == ["end orders-0", "cleanup"], "the other claim drained, then cleanup ran"
        assert committed(cluster) == {"orders-0": 3, "orders-1": 5}
        assert not cluster.describe_group("g").members, "the member has left"


async def test_exception_group_contains_all_failed_claims(autojump_clock: MockClock) -> None:
    async def fail(session: Session, claim: Claim, message: Message) -> None:
        raise ValueError(f"partition {claim.partition}")

    async with orders(3) as cluster, deadline() as nursery:
        handler = Recorder(fail)
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: len([c for c in handler.calls if c.startswith("claim")]) == 3)
        for partition in range(3):
            fill(cluster, 1, partition)
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        assert all(isinstance(e, ClaimError) for e in member.error.exceptions)


async def test_failing_setup_runs_cleanup_and_no_claim(autojump_clock: MockClock) -> None:
    class Broken(Recorder):
        async def setup(self, session: Session) -> None:
            raise RuntimeError("no database")

    async with orders() as cluster, deadline() as nursery:
        handler = Broken()
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert handler.calls == ["cleanup"]
        assert isinstance(member.error, ExceptionGroup)
        (error,) = member.error.exceptions
        assert str(error) == "no database"
        assert error.__notes__ == ["in setup of group 'g', generation 1"]


async def test_failing_offset_fetch_runs_no_cleanup(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert handler.calls == []
        assert isinstance(member.error, ExceptionGroup)
        assert "TOPIC_AUTHORIZATION_FAILED" in str(member.error.exceptions[0])


async def test_unstable_offset_fetch_is_retried(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        first = Recorder()
        member = await start_member(nursery, cluster, first)
        await first.received(5)
        await member.close()
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT, 4)
        second = Recorder()
        member = await start_member(nursery, cluster, second)
        await second.until(lambda: "claim orders-0" in second.calls)
        assert member.seen(ClaimStarted)[0].offset == 5
        assert [e.attempt for e in member.seen(Retrying) if "offset fetch" in e.what] == [1, 2, 3, 4]


async def test_claim_that_returns_ends_the_session_and_rejoins(autojump_clock: MockClock) -> None:
    class Takes(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for message in claim:
                self.messages.append(message)
                session.mark_message(message)
                if len(self.messages) % 3 == 0:
                    return

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 9)
        handler = Takes()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: handler.calls.count("setup") >= 4)
        assert handler.offsets("orders", 0) == list(range(9))
        assert not [e for e in member.seen(SessionEnding) if e.lost]


async def test_claim_that_returns_at_once_is_restarted_with_backoff(autojump_clock: MockClock) -> None:
    class Returns(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            return

    async with orders() as cluster, deadline() as nursery:
        handler = Returns()
        member = await start_member(nursery, cluster, handler, retry_backoff=0.1, retry_backoff_max=2.0)
        await trio.sleep(60)
        assert handler.calls.count("setup") < 60, "no rebalance storm"
        assert [e for e in member.seen(Retrying) if e.what == "session"]
