"""Handler calls that are cancelled, or that work in a nursery of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, CommittedOffset, Session, TopicPartition
from sarameya.observe import CallCancelled, SessionEnded
from tests.group.kit import Recorder, deadline, failure, orders, start_member
from tests.group.test_cooperative import Partitions, start


async def flush_in_a_nursery() -> None:
    """Work in a nursery with a task that fails when it is cancelled."""

    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("disk full")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        await trio.sleep_forever()


@pytest.mark.parametrize("where", ["setup", "assigned", "revoked", "cleanup"])
async def test_cancelled_call_failing_in_a_nursery_ends_the_session(autojump_clock: MockClock, where: str) -> None:
    class Fails(Recorder):
        async def setup(self, session: Session) -> None:
            await super().setup(session)
            await self._called("setup")

        async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await self._called("assigned")

        async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await self._called("revoked")

        async def cleanup(self, session: Session) -> None:
            self._note("cleanup")
            await self._called("cleanup")

        async def _called(self, name: str) -> None:
            if name == where:
                await flush_in_a_nursery()

    async with orders(2) as cluster, deadline() as nursery:
        handler = Fails()
        member = await start_member(nursery, cluster, handler, close_timeout=5.0)
        await handler.until(lambda: bool(handler.sessions))
        await trio.sleep(1)
        await member.close()
        assert isinstance(member.error, ExceptionGroup), "no BaseException"
        assert member.error.subgroup(OSError)
        assert "cleanup" in handler.calls
        assert len(member.seen(SessionEnded)) == 1


async def test_cancelled_start_offset_leaves_kept_claims_their_grace(
    autojump_clock: MockClock,
) -> None:
    class Fails(Partitions):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for _ in claim:
                pass
            await trio.sleep(2)
            self._note("drained")

        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            if "claim" in self.calls:
                self._note("start_offset again")
                await flush_in_a_nursery()
            return None

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Fails(), Partitions()
        second = await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 2)
        first = await start(nursery, cluster, one, close_timeout=5.0)
        await one.until(lambda: "claim" in one.calls)
        await second.close()
        await one.until(lambda: "start_offset again" in one.calls)
        await first.close()
        assert "drained" in one.calls
        assert isinstance(first.error, ExceptionGroup)
        assert first.error.subgroup(OSError)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_setup_cancelled_by_a_rebalance_ends_the_session(autojump_clock: MockClock, strategy: str) -> None:
    """The handler is not set up, so no claim may start."""

    class Slow(Recorder):
        async def setup(self, session: Session) -> None:
            await super().setup(session)
            if len(self.sessions) == 1:
                await trio.sleep(100)

    async with orders(2) as cluster, deadline() as nursery:
        one, two, three = Slow(), Recorder(), Recorder()
        options = {"claim_grace": 2.0, "rebalance_strategies": (strategy,)}
        first = await start_member(nursery, cluster, one, **options)
        await one.until(lambda: bool(one.sessions))
        await start_member(nursery, cluster, two, **options)
        await trio.sleep(5)
        await start_member(nursery, cluster, three, **options)
        await one.until(lambda: len(one.sessions) == 2)
        assert one.calls[:3] == ["setup", "cleanup", "setup"]
        (cancelled,) = first.seen(CallCancelled)
        assert cancelled.call == "setup"
        assert first.error is None


async def test_exception_group_of_the_handler_is_raised_as_it_is(autojump_clock: MockClock) -> None:
    class Fails(Recorder):
        async def setup(self, session: Session) -> None:
            raise ExceptionGroup("two", [OSError("disk full"), ValueError("no number")])

    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Fails())
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, ExceptionGroup)
        assert error.message == "two"
