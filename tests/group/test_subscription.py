"""Changes of a member's subscription: patterns, other topics, topics that grow, appear and vanish."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import Assignor, ConfigError, ConsumerGroupHandler, ErrorCode
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimStarted, MembershipChanged, SessionStarted
from sarameya.protocol.assignors import CooperativeStickyAssignor, RangeAssignor
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import (
    OwnAssignor,
    Recorder,
    Running,
    committed,
    deadline,
    eventually,
    fill,
    orders,
    start_member,
)

ASSIGNORS = ["range", "cooperative-sticky"]


class Claims(Recorder):
    @property
    def claims(self) -> dict[str, tuple[int, ...]]:
        return dict(self.sessions[-1].claims) if self.sessions else {}


def cluster_of(topics: Mapping[str, int]) -> EmbeddedCluster:
    return EmbeddedCluster(topics=topics, in_memory=True, seed=1)


async def start(
    nursery: trio.Nursery, cluster: EmbeddedCluster, handler: ConsumerGroupHandler, **options: Any
) -> Running:
    """Start a member that refreshes metadata once a minute. `assignor` names its assignor."""
    assignor = options.pop("assignor", "range")
    return await start_member(
        nursery, cluster, handler, **{"metadata_max_age": 60.0, "rebalance_strategies": (assignor,), **options}
    )


def rebalances(member: Running) -> int:
    return len([e for e in member.seen(MembershipChanged) if e.after == "PREPARING_REBALANCE"])


# -- patterns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_pattern_reads_every_topic_whose_whole_name_matches(autojump_clock: MockClock, assignor: str) -> None:
    topics = {"orders-eu": 1, "orders-us": 2, "orders": 1, "all-orders-eu": 1}
    async with cluster_of(topics) as cluster, deadline() as nursery:
        one = Claims()
        await start(nursery, cluster, one, topics=re.compile("orders-.*"), assignor=assignor)
        await one.until(lambda: bool(one.claims))
        assert one.claims == {"orders-eu": (0,), "orders-us": (0, 1)}


async def test_pattern_never_matches_kafkas_own_topics(autojump_clock: MockClock) -> None:
    async with cluster_of({"orders": 1}) as cluster, deadline() as nursery:
        one = Claims()
        await start(nursery, cluster, one, topics=re.compile(".*"))
        await one.until(lambda: bool(one.claims))
        assert one.claims == {"orders": (0,)}


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_topic_that_appears_and_matches_is_read_from_its_start(autojump_clock: MockClock, assignor: str) -> None:
    async with cluster_of({"orders-eu": 1}) as cluster, deadline() as nursery:
        one = Claims()
        options = {"topics": re.compile("orders-.*"), "assignor": assignor, "offset_initial": "newest"}
        member = await start(nursery, cluster, one, **options)
        await one.until(lambda: bool(one.claims))
        cluster.create_topic("orders-us", 2)
        fill(cluster, 3, 1, topic="orders-us")
        await one.received(3)
        assert one.offsets("orders-us", 1) == [0, 1, 2], "read from its start in spite of `newest`: it is new"
        assert one.claims == {"orders-eu": (0,), "orders-us": (0, 1)}
        assert rebalances(member) == 2


async def test_topic_that_a_later_pattern_matches_is_not_new(autojump_clock: MockClock) -> None:
    """The topic has existed all the time, so the policy decides its start offset."""
    async with cluster_of({"orders-eu": 1, "orders-us": 1}) as cluster, deadline() as nursery:
        one = Claims()
        fill(cluster, 3, topic="orders-us")
        member = await start(nursery, cluster, one, topics=("orders-eu",), offset_initial="newest")
        await one.until(lambda: bool(one.claims))
        member.group.subscribe(pattern=re.compile("orders-.*"))
        await one.until(lambda: "claim orders-us-0" in one.calls)
        fill(cluster, 1, topic="orders-us")
        await one.received(1)
        assert one.offsets("orders-us", 0) == [3]


async def test_pattern_that_matches_nothing_yet_waits_for_a_topic(autojump_clock: MockClock) -> None:
    async with cluster_of({"other": 1}) as cluster, deadline() as nursery:
        one = Claims()
        await start(nursery, cluster, one, topics=re.compile("orders-.*"))
        await one.until(lambda: bool(one.sessions))
        cluster.create_topic("orders-us", 1)
        fill(cluster, 2, topic="orders-us")
        await one.received(2)


async def test_new_topic_of_two_pattern_members_causes_one_rebalance(autojump_clock: MockClock) -> None:
    async with cluster_of({"orders-eu": 2}) as cluster, deadline() as nursery:
        one, two = Claims(), Claims()
        pattern = re.compile("orders-.*")
        await start(nursery, cluster, one, topics=pattern)
        await start(nursery, cluster, two, topics=pattern)
        await eventually(lambda: len(one.claims.get("orders-eu", ())) == len(two.claims.get("orders-eu", ())) == 1)
        before = one.sessions[-1].generation
        cluster.create_topic("orders-us", 2)
        await eventually(lambda: "orders-us" in one.claims and "orders-us" in two.claims)
        await trio.sleep(200)
        assert one.sessions[-1].generation == two.sessions[-1].generation == before + 1


# -- topics that grow and vanish ----------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_added_partitions_are_read_from_their_start(autojump_clock: MockClock, assignor: str) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one = Claims()
        fill(cluster, 5)
        member = await start(nursery, cluster, one, assignor=assignor, offset_initial="newest")
        await one.until(lambda: bool(one.claims))
        cluster.add_partitions("orders", 3)
        fill(cluster, 4, 2)
        await one.received(4)
        assert one.offsets("orders", 2) == [0, 1, 2, 3]
        assert one.offsets("orders", 0) == [], "older partitions start by the policy"
        why = {str(e.partition): e.why for e in member.seen(ClaimStarted)}
        assert why["orders-2"] == "added"


@pytest.mark.parametrize(
    "make_assignor",
    [
        RangeAssignor,
        CooperativeStickyAssignor,
        OwnAssignor,
        partial(OwnAssignor, b""),
        partial(OwnAssignor, b"its own"),
    ],
    ids=["range", "cooperative-sticky", "own", "own, with empty user data", "own, with user data"],
)
async def test_new_member_learns_added_partitions_from_the_leader(
    autojump_clock: MockClock, make_assignor: Callable[[], Assignor]
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Claims(), Claims()
        options: dict[str, Any] = {"offset_initial": "newest", "metadata_max_age": 1000.0}
        await start(nursery, cluster, one, assignors=[make_assignor()], **options)
        await one.until(lambda: "claim orders-1" in one.calls)
        fill(cluster, 5, 1)
        await one.received(5)
        cluster.add_partitions("orders", 6)
        for added in range(2, 6):
            fill(cluster, 3, added)
        await start(nursery, cluster, two, assignors=[make_assignor()], **options)
        await eventually(lambda: len(one.messages) + len(two.messages) == 17)
        assert {m.partition for m in two.messages} & {2, 3, 4, 5}, "it has read some added partitions"


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_vanished_topic_is_revoked_and_others_are_read(autojump_clock: MockClock, assignor: str) -> None:
    async with cluster_of({"orders": 2, "returns": 1}) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one, topics=("orders", "returns"), assignor=assignor)
        await one.until(lambda: len(one.claims) == 2)
        cluster.delete_topic("returns")
        await eventually(lambda: one.claims == {"orders": (0, 1)})  # the topic may vanish before its claim has started
        fill(cluster, 3)
        await one.received(3)
        await trio.sleep(100)
        assert member.error is None
        assert len(member.seen(SessionStarted)) <= 2


async def test_topic_that_comes_back_is_read_from_its_start(autojump_clock: MockClock) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline() as nursery:
        one = Claims()
        await start(nursery, cluster, one, topics=("orders", "returns"), offset_initial="newest")
        await one.until(lambda: len(one.claims) == 2)
        cluster.delete_topic("returns")
        await one.until(lambda: "returns" not in one.claims)
        cluster.create_topic("returns", 1)
        fill(cluster, 3, topic="returns")
        await one.received(3)
        assert one.offsets("returns", 0) == [0, 1, 2]


@attrs.define
class Hidden:
    """An edit of the next `left` Metadata responses: `topic` gets the error `code`, or is left out if that is None."""

    topic: str
    code: ErrorCode | None
    left: int = 0

    def edit(self, request: Any, answer: Any) -> None:
        if not self.left:
            return
        self.left -= 1
        if self.code is None:
            answer.topics = [found for found in answer.topics if found.name != self.topic]
        for found in answer.topics:
            if found.name == self.topic:
                found.error_code, found.partitions = self.code, []


def hide(monkeypatch: pytest.MonkeyPatch, topic: str, code: ErrorCode | None) -> Hidden:
    hidden = Hidden(topic, code)
    edit_answers(monkeypatch, Api.METADATA, hidden.edit)
    return hidden


each_missing_topic = pytest.mark.parametrize(
    ("topics", "code"),
    [
        pytest.param(("orders", "returns"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="by name"),
        pytest.param(re.compile("orders|returns"), None, id="by pattern"),
    ],
)


@each_missing_topic
async def test_topic_missing_from_four_responses_is_not_revoked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, topics: Any, code: ErrorCode | None
) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline(1000) as nursery:
        hidden = hide(monkeypatch, "returns", code)
        one = Claims()
        member = await start(nursery, cluster, one, topics=topics)
        await one.until(lambda: len(one.claims) == 2)
        before = rebalances(member)
        for _ in range(3):
            hidden.left = 4
            await eventually(lambda: hidden.left == 0)
            await trio.sleep(100)
        assert one.claims == {"orders": (0,), "returns": (0,)}
        assert rebalances(member) == before


@each_missing_topic
async def test_topic_missing_five_times_is_revoked_within_seconds(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, topics: Any, code: ErrorCode | None
) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline(1000) as nursery:
        hidden = hide(monkeypatch, "returns", code)
        one = Claims()
        await start(nursery, cluster, one, topics=topics)
        await one.until(lambda: len(one.claims) == 2)
        hidden.left = 50
        await eventually(lambda: hidden.left < 50)
        began = trio.current_time()
        await one.until(lambda: one.claims == {"orders": (0,)})
        assert 3.8 <= trio.current_time() - began <= 15.0, "four more requests, a second apart, and those of the leader"
        hidden.left = 0
        await one.until(lambda: one.claims == {"orders": (0,), "returns": (0,)})


async def test_topic_with_a_passing_error_is_never_revoked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline(1000) as nursery:
        hidden = hide(monkeypatch, "returns", ErrorCode.LEADER_NOT_AVAILABLE)
        one = Claims()
        member = await start(nursery, cluster, one, topics=("orders", "returns"), metadata_max_age=5.0)
        await one.until(lambda: len(one.claims) == 2)
        before = rebalances(member)
        hidden.left = 30
        await eventually(lambda: hidden.left == 0)
        await trio.sleep(20)
        assert one.claims == {"orders": (0,), "returns": (0,)}
        assert rebalances(member) == before


async def test_topic_missing_once_stays_after_a_new_subscription(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline(1000) as nursery:
        hidden = hide(monkeypatch, "returns", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        one = Claims()
        member = await start(nursery, cluster, one, topics=("orders", "returns"))
        await one.until(lambda: len(one.claims) == 2)
        before = rebalances(member)
        hidden.left = 1
        await eventually(lambda: hidden.left == 0)
        for _ in range(10):
            member.group.subscribe(["orders", "returns"])
        await trio.sleep(100)
        assert rebalances(member) == before, "however often one response is evaluated"


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_partitions_added_during_a_sync_are_assigned_after_it(autojump_clock: MockClock, assignor: str) -> None:
    """The leader compares the metadata of its assignment with the current one. No later refresh would show a change."""
    async with orders(2) as cluster, deadline() as nursery:
        one = Claims()
        cluster.delay_next(Api.SYNC_GROUP, 3.0)
        member = await start(nursery, cluster, one, assignor=assignor, metadata_max_age=10_000.0)
        await eventually(lambda: cluster.faults == ())
        began = trio.current_time()
        cluster.add_partitions("orders", 4)
        member.group.subscribe(["orders"])  # the same topics again: this evaluates the metadata
        await one.until(lambda: one.claims == {"orders": (0, 1, 2, 3)})
        assert trio.current_time() - began < 4.0, "at most the time of the sync and of one more rebalance"
        assert cluster.describe_group("g").generation == 2
        await trio.sleep(100)
        assert cluster.describe_group("g").generation == 2, "no further rebalance"


# -- other topics while running -----------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_other_topics_are_subscribed_to_while_running(autojump_clock: MockClock, assignor: str) -> None:
    async with cluster_of({"orders": 2, "returns": 2}) as cluster, deadline() as nursery:
        one, two = Claims(), Claims()
        first = await start(nursery, cluster, one, assignor=assignor)
        await start(nursery, cluster, two, assignor=assignor)
        await eventually(lambda: len(one.claims.get("orders", ())) == len(two.claims.get("orders", ())) == 1)
        first.group.subscribe(["returns"])
        await eventually(lambda: one.claims == {"returns": (0, 1)} and two.claims == {"orders": (0, 1)})
        fill(cluster, 2, topic="returns")
        await one.received(2)


async def test_subscription_changed_during_a_rebalance_takes_effect(autojump_clock: MockClock) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one)
        await eventually(lambda: cluster.describe_group("g").members != ())
        member.group.subscribe(["orders", "returns"])
        await one.until(lambda: one.claims == {"orders": (0,), "returns": (0,)})


async def test_pattern_replaces_topics_and_topics_replace_a_pattern(autojump_clock: MockClock) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one)
        await one.until(lambda: one.claims == {"orders": (0,)})
        member.group.subscribe(pattern=re.compile("o.*|r.*"))
        await one.until(lambda: one.claims == {"orders": (0,), "returns": (0,)})
        member.group.subscribe(["returns"])
        await one.until(lambda: one.claims == {"returns": (0,)})


async def test_same_subscription_again_causes_no_rebalance(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one)
        await one.until(lambda: bool(one.claims))
        before = rebalances(member)
        member.group.subscribe(["orders", "orders"])
        await trio.sleep(100)
        assert rebalances(member) == before


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_unsubscribe_leaves_the_group_until_subscribe(autojump_clock: MockClock, assignor: str) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one, assignor=assignor)
        fill(cluster, 2)
        await one.received(2)
        member.group.unsubscribe()
        await one.until(lambda: one.calls[-1] == "cleanup")
        await eventually(lambda: cluster.describe_group("g").members == ())
        assert committed(cluster) == {"orders-0": 2}
        fill(cluster, 2)
        await trio.sleep(100)
        assert cluster.describe_group("g").members == ()
        member.group.subscribe(["orders"])
        await one.received(4)
        assert one.offsets("orders", 0) == [0, 1, 2, 3]
        await member.close()
        assert member.error is None


async def test_group_without_a_subscription_closes_at_once(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one)
        await one.until(lambda: bool(one.claims))
        member.group.unsubscribe()
        await eventually(lambda: cluster.describe_group("g").members == ())
        await member.close()
        assert member.error is None


async def test_subscribe_right_after_unsubscribe_takes_effect(autojump_clock: MockClock) -> None:
    async with cluster_of({"orders": 1, "returns": 1}) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one)
        await one.until(lambda: bool(one.claims))
        member.group.unsubscribe()
        member.group.subscribe(["returns"])
        await one.until(lambda: one.claims == {"returns": (0,)})


async def test_invalid_subscriptions_are_refused(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one = Claims()
        member = await start(nursery, cluster, one)
        await one.until(lambda: bool(one.claims))
        for wrong in ({"topics": []}, {"topics": "orders"}, {"topics": ["a"], "pattern": re.compile("a")}, {}):
            with pytest.raises(ConfigError):
                member.group.subscribe(**wrong)  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match=r"re\.compile"):
            member.group.subscribe(pattern="orders.*")  # type: ignore[call-overload]
        await trio.sleep(10)
        assert one.claims == {"orders": (0,)}


async def test_subscribe_after_consume_has_returned_raises(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        member = await start(nursery, cluster, Claims())
        await member.close()
        with pytest.raises(RuntimeError, match="is not running: call subscribe"):
            member.group.subscribe(["orders"])
