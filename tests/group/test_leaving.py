"""Members leave at once, with a reason, however they end. Only killed ones wait for a session timeout (KIP-800)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import trio
from trio.testing import MockClock

from sarameya import AssignorError, Claim, ConsumerGroup, ErrorCode, Message, RetriesExhaustedError, Session
from sarameya.observe import GroupLeft, LeaveFailed
from sarameya.protocol.assignors import RangeAssignor
from sarameya.protocol.assignors.base import Subscription, TopicLayout
from sarameya.protocol.versions import Api
from sarameya.testing import run_inline
from tests.group.kit import CutOff, Recorder, Running, deadline, eventually, fill, orders, start_leaving, start_member

ASSIGNORS = ["range", "cooperative-sticky"]


async def close(member: Running) -> None:
    member.group.close_nowait("the shop is shut")


async def cancel(member: Running) -> None:
    member.scope.cancel()


async def end_session(member: Running) -> None:
    member.group.unsubscribe()


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize(
    ("ending", "reason"),
    [(close, "the shop is shut"), (cancel, "cancelled"), (end_session, "the subscription was dropped")],
)
async def test_member_that_ends_leaves_at_once_with_a_reason(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, assignor: str, ending: object, reason: str
) -> None:
    caplog.set_level(logging.INFO, logger="sarameya.embedded")
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, rebalance_strategies=(assignor,))
        await start_member(nursery, cluster, two, rebalance_strategies=(assignor,))
        await eventually(lambda: len(cluster.describe_group("g").members) == 2 and bool(one.sessions and two.sessions))
        await trio.sleep(10)
        began = trio.current_time()
        await ending(first)  # type: ignore[operator]
        await eventually(lambda: len(cluster.describe_group("g").members) == 1)
        assert trio.current_time() - began < 0.5
        assert any(f"({reason})" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_member_with_a_failed_handler_leaves_with_a_reason(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, assignor: str
) -> None:
    async def fail(session: Session, claim: Claim, message: Message) -> None:
        raise RuntimeError("cannot")

    caplog.set_level(logging.INFO, logger="sarameya.embedded")
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(fail), rebalance_strategies=(assignor,))
        fill(cluster, 1)
        await member.ended.wait()
        assert cluster.describe_group("g").members == ()
        assert any("(claim of orders-0 failed)" in record.getMessage() for record in caplog.records)


class Unable(RangeAssignor):
    """An assignor that fails from its second call on."""

    times = 0

    def assign(
        self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]
    ) -> dict[str, Mapping[str, tuple[int, ...]]]:
        self.times += 1
        if self.times > 1:
            raise RuntimeError("cannot assign")
        return super().assign(members, topics)


async def test_member_with_a_failing_assignor_leaves_its_group(autojump_clock: MockClock) -> None:
    one, two = Recorder(), Recorder()
    async with orders(2) as cluster, deadline() as nursery:

        async def lead() -> None:
            group = ConsumerGroup(
                cluster.bootstrap_servers, "g", transport=cluster.transport, run_sync=run_inline, assignors=[Unable()]
            )
            async with group:
                with pytest.raises(AssignorError, match="cannot assign"):
                    await group.consume(["orders"], one)

        nursery.start_soon(lead)
        await one.until(lambda: bool(one.sessions))
        began = trio.current_time()
        await start_member(nursery, cluster, two)
        await two.until(lambda: bool(two.sessions))
        assert two.sessions[0].claims == {"orders": (0, 1)}
        assert trio.current_time() - began < 4.0, "no longer than a heartbeat interval"


async def test_member_with_exhausted_retries_leaves(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one, retry_max_attempts=1)
        await one.until(lambda: bool(one.sessions))
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2)
        await member.ended.wait()
        assert isinstance(member.error, RetriesExhaustedError)
        assert cluster.describe_group("g").members == ()


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_member_with_a_held_join_leaves_at_once(autojump_clock: MockClock, assignor: str) -> None:
    async with orders(3) as cluster, deadline() as nursery:
        cut, one, two = CutOff(cluster.transport), Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, rebalance_strategies=(assignor,))
        options = {"session_timeout": 30.0, "rebalance_strategies": (assignor,)}
        await start_member(nursery, cluster, two, transport=cut, **options)
        await eventually(lambda: bool(two.sessions))
        await trio.sleep(10)
        cut.alive = False
        await start_member(nursery, cluster, Recorder(), rebalance_strategies=(assignor,))
        await trio.sleep(8)
        members = cluster.describe_group("g").members
        assert len(members) == 3, "the join phase waits for the one that is cut off"
        await first.close()
        assert len(cluster.describe_group("g").members) == 2
        assert first.error is None


async def test_killed_member_is_removed_after_its_session_timeout(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        cut = CutOff(cluster.transport)
        one = Recorder()
        member = await start_member(nursery, cluster, one, transport=cut)
        await one.until(lambda: bool(one.sessions))
        await trio.sleep(10)
        cut.alive = False
        member.scope.cancel()
        began = trio.current_time()
        await eventually(lambda: cluster.describe_group("g").members == ())
        assert 6.9 <= trio.current_time() - began <= 10.2


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR, None])
async def test_leave_that_fails_or_gets_no_response_is_reported(
    autojump_clock: MockClock, code: ErrorCode | None
) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one, close_timeout=5.0)
        await one.until(lambda: bool(one.sessions))
        if code is None:
            cluster.drop_next(Api.LEAVE_GROUP, None, hang_up=False)
        else:
            cluster.fail_next(Api.LEAVE_GROUP, code, None)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began <= 5.0
        assert member.error is None, "all is committed; the group only waits for the session timeout"
        (failed,) = member.seen(LeaveFailed)
        assert (code.name if code else "not answered") in failed.cause


async def test_leave_without_response_after_unsubscribe_is_reported(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one, close_timeout=5.0)
        await one.until(lambda: bool(one.sessions))
        cluster.drop_next(Api.LEAVE_GROUP, None, hang_up=False)
        member.group.unsubscribe()
        await eventually(lambda: bool(member.seen(LeaveFailed)))


@pytest.mark.parametrize(
    ("ending", "reason"), [(close, "the shop is shut"), (end_session, "the subscription was dropped")]
)
async def test_successful_leave_is_reported_once(autojump_clock: MockClock, ending: object, reason: str) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: bool(one.sessions))
        await ending(member)  # type: ignore[operator]
        await eventually(lambda: not cluster.describe_group("g").members)
        await member.close()
        assert member.seen(GroupLeft) == [GroupLeft("g", reason)]
        assert not member.seen(LeaveFailed)


@pytest.mark.parametrize("ending", [close, cancel, end_session])
async def test_leave_despite_a_stuck_claim_is_reported_once(autojump_clock: MockClock, ending: object) -> None:
    class Stubborn(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            with trio.move_on_after(60, shield=True):
                await trio.sleep_forever()

    async with orders(1) as cluster, deadline() as nursery:
        one = Stubborn()
        member = await start_member(nursery, cluster, one, claim_grace=2.0, close_timeout=10.0)
        await one.until(lambda: "claim" in one.calls)
        await ending(member)  # type: ignore[operator]
        await eventually(lambda: not cluster.describe_group("g").members)
        await trio.sleep(1)
        left = [GroupLeft("g", "claim of orders-0 is stuck")]
        assert not member.ended.is_set()
        assert member.seen(GroupLeft) == left, "reported while the claim is stuck, since it may never return"
        await member.ended.wait()
        assert member.seen(GroupLeft) == left
        assert not member.seen(LeaveFailed)


async def test_late_response_to_a_leave_is_reported(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_leaving(nursery, cluster, answered_after=8.0, close_timeout=5.0)
        await trio.sleep(7)
        assert len(member.seen(LeaveFailed)) == 1
        await trio.sleep(7)
        await member.close()
        assert member.seen(GroupLeft) == [GroupLeft("g", "the subscription was dropped")]
        assert len(member.seen(LeaveFailed)) == 1


async def test_leave_overtaken_by_a_close_keeps_the_sent_reason(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="sarameya.embedded")
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_leaving(nursery, cluster, answered_after=2.0)
        await trio.sleep(1)
        await member.close()
        assert any("(the subscription was dropped)" in record.getMessage() for record in caplog.records)
        assert member.seen(GroupLeft) == [GroupLeft("g", "the subscription was dropped")]


async def test_member_that_ends_before_its_join_reports_no_leave(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        cluster.drop_next(Api.JOIN_GROUP, None, hang_up=False)
        member = await start_member(nursery, cluster, Recorder())
        await trio.sleep(1)
        await member.close()
        assert member.error is None
        assert not member.seen(GroupLeft)
        assert not member.seen(LeaveFailed)


async def test_static_member_that_ends_reports_no_leave(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one, group_instance_id="pod-0")
        await one.until(lambda: bool(one.sessions))
        await member.close()
        assert len(cluster.describe_group("g").members) == 1
        assert not member.seen(GroupLeft)
