"""Subscriptions that change at awkward moments: before a join, between sessions, during a leave. Virtual time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, GroupAuthorizationError, Session, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.observe import ClaimStarted
from sarameya.protocol.versions import Api
from tests.group.kit import CutOff, Recorder, deadline, eventually, fill, orders, start_leaving, start_member
from tests.group.test_cooperative import COOPERATIVE, Partitions, start


def two_topics() -> EmbeddedCluster:
    return EmbeddedCluster(topics={"orders": 1, "users": 1}, in_memory=True, seed=1)


def claims(handler: Recorder) -> dict[str, tuple[int, ...]]:
    return dict(handler.sessions[-1].claims) if handler.sessions else {}


async def test_subscription_changed_during_a_revocation_takes_effect(autojump_clock: MockClock) -> None:
    """Two reasons to rejoin at once: the join for the first one is pending when the second one is handled."""

    class Changes(Partitions):
        async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            first.group.subscribe(["users"])

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                pass
            await trio.sleep(4)

    async with EmbeddedCluster(topics={"orders": 4, "users": 2}, in_memory=True) as cluster, deadline() as nursery:
        one, two = Changes(), Partitions()
        first = await start(nursery, cluster, one, autocommit=False)
        await one.until(lambda: len(one.claims) == 4)
        await start(nursery, cluster, two)
        await eventually(lambda: first.ended.is_set() or claims(one) == {"users": (0, 1)})
        assert first.error is None
        await two.until(lambda: len(two.claims) == 4)


async def test_subscription_changed_while_connecting_takes_effect(autojump_clock: MockClock) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        cluster.delay_next(Api.METADATA, 2.0)
        one = Partitions()
        member = await start_member(nursery, cluster, one)
        await trio.sleep(1)
        member.group.subscribe(["users"])
        await one.until(lambda: bool(one.sessions))
        assert claims(one) == {"users": (0,)}
        assert cluster.describe_group("g").generation == 1


async def test_pattern_subscribed_while_connecting_has_no_new_topics(
    autojump_clock: MockClock,
) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        fill(cluster, 3, topic="users")
        cluster.delay_next(Api.METADATA, 2.0)
        one = Partitions()
        member = await start_member(nursery, cluster, one, offset_initial="newest")
        await trio.sleep(1)
        member.group.subscribe(pattern=re.compile(".*"))
        await eventually(lambda: len(member.seen(ClaimStarted)) == 2)
        assert {e.why for e in member.seen(ClaimStarted)} == {"newest"}


async def test_missing_topic_is_not_required_after_its_unsubscription(autojump_clock: MockClock) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        one = Partitions()
        member = await start_member(nursery, cluster, one, topics=("no-such-topic",))
        await trio.sleep(1)
        member.group.subscribe(["not-yet", "users"])
        await eventually(lambda: claims(one) == {"users": (0,)})
        await trio.sleep(100)
        assert member.error is None
        cluster.create_topic("not-yet", 1)
        await eventually(lambda: claims(one) == {"not-yet": (0,), "users": (0,)})


async def test_unsubscribe_while_connecting_joins_nothing(autojump_clock: MockClock) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        cluster.delay_next(Api.METADATA, 2.0, 2)
        one, two = Partitions(), Partitions()
        first = await start_member(nursery, cluster, one)
        second = await start_member(nursery, cluster, two)
        await trio.sleep(1)
        first.group.unsubscribe()
        second.group.unsubscribe()
        await trio.sleep(20)
        assert cluster.describe_group("g").members == ()
        first.group.subscribe(["users"])
        await eventually(lambda: claims(one) == {"users": (0,)})
        await second.close()
        assert second.error is None
        assert two.calls == []


async def test_close_after_a_change_while_connecting_takes_effect(autojump_clock: MockClock) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        cluster.delay_next(Api.METADATA, 20.0, None)
        one = Partitions()
        member = await start_member(nursery, cluster, one)
        await trio.sleep(1)
        member.group.subscribe(["users"])
        await trio.sleep(1)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began < 1
        assert member.error is None


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
async def test_unsubscribe_during_the_first_join_leaves_the_group(
    autojump_clock: MockClock, options: dict[str, Any]
) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.delay_next(Api.JOIN_GROUP, 5.0)
        one = Partitions()
        member = await start_member(nursery, cluster, one, **options)
        await trio.sleep(2)
        member.group.unsubscribe()
        await trio.sleep(20)
        assert cluster.describe_group("g").members == ()
        assert "cleanup" in one.calls or one.calls == []
        member.group.subscribe(["orders"])
        await eventually(lambda: claims(one) == {"orders": (0,)})


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
async def test_unsubscribe_during_a_rebalance_leaves_the_group(
    autojump_clock: MockClock, options: dict[str, Any]
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        cut = CutOff(cluster.transport)
        member = await start_member(nursery, cluster, one, **options)
        await start_member(
            nursery, cluster, two, transport=cut, session_timeout=30.0, rebalance_timeout=40.0, **options
        )
        await eventually(lambda: len(one.claims) == len(two.claims) == 1)
        cut.alive = False  # it will not rejoin: the join phase lasts until it expires
        await start_member(nursery, cluster, Partitions(), **options)
        await trio.sleep(10)
        assert cluster.describe_group("g").state is GroupState.PREPARING_REBALANCE
        member.group.unsubscribe()
        await trio.sleep(60)
        assert one.calls[-1] == "cleanup"
        assert len(cluster.describe_group("g").members) == 1


async def test_unsubscribe_between_sessions_leaves_the_group(
    autojump_clock: MockClock,
) -> None:
    class Returns(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            return

    async with orders() as cluster, deadline() as nursery:
        handler = Returns()
        member = await start_member(nursery, cluster, handler, retry_backoff=100.0, retry_backoff_max=200.0)
        await handler.until(lambda: len(handler.sessions) >= 2)
        await trio.sleep(1)
        member.group.unsubscribe()
        await trio.sleep(1)
        assert cluster.describe_group("g").members == ()


async def test_close_during_the_leave_of_an_unsubscribe_takes_effect(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        member = await start_leaving(nursery, cluster, answered_after=2.0)
        await trio.sleep(1)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began < 2
        assert cluster.describe_group("g").members == ()


async def test_refused_leave_after_unsubscribe_is_raised(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: bool(one.sessions))
        cluster.fail_next(Api.LEAVE_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        member.group.unsubscribe()
        await member.ended.wait()
        assert isinstance(member.error, GroupAuthorizationError)


@pytest.mark.parametrize("half", ["request", "answer"])
async def test_subscribe_before_the_leave_response_waits_like_a_close(
    autojump_clock: MockClock, half: Literal["request", "answer"]
) -> None:
    async with orders() as cluster, deadline() as nursery:
        one = Partitions()
        member = await start_member(nursery, cluster, one, close_timeout=5.0)
        await one.until(lambda: bool(one.claims))
        cluster.drop_next(Api.LEAVE_GROUP, None, half=half, hang_up=False)
        member.group.unsubscribe()
        await trio.sleep(1)
        member.group.subscribe(["orders"])
        began = trio.current_time()
        await one.until(lambda: one.calls.count("setup") == 2)
        assert 3 < trio.current_time() - began < 5
        fill(cluster, 3)
        await one.received(3)
        await trio.sleep(60)
        assert one.calls.count("setup") == 2, "no leave is sent after it"
        assert member.error is None


async def test_subscribe_long_after_a_silent_leave_joins_at_once(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline() as nursery:
        one = Partitions()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: bool(one.claims))
        cluster.drop_next(Api.LEAVE_GROUP, None, hang_up=False)
        member.group.unsubscribe()
        await trio.sleep(100)
        member.group.subscribe(["orders"])
        began = trio.current_time()
        await one.until(lambda: one.calls.count("setup") == 2)
        assert trio.current_time() - began < 1
        assert member.error is None


@pytest.mark.parametrize("before", [("orders", "users"), re.compile("orders|users")], ids=["names", "pattern"])
async def test_pattern_that_matches_fewer_topics_revokes_the_rest(
    autojump_clock: MockClock, before: tuple[str, ...] | re.Pattern[str]
) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        one = Partitions()
        member = await start_member(nursery, cluster, one, topics=before)
        await eventually(lambda: len(claims(one)) == 2)
        member.group.subscribe(pattern=re.compile("ord.*"))
        await trio.sleep(10)
        assert claims(one) == {"orders": (0,)}


async def test_pattern_is_matched_as_soon_as_it_is_subscribed(autojump_clock: MockClock) -> None:
    async with two_topics() as cluster, deadline() as nursery:
        one = Partitions()
        member = await start_member(nursery, cluster, one)
        await eventually(lambda: claims(one) == {"orders": (0,)})
        member.group.subscribe(pattern=re.compile(".*"))
        await trio.sleep(10)
        assert claims(one) == {"orders": (0,), "users": (0,)}
