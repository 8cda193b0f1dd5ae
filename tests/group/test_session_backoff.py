"""Changes of the group while no session runs: in the backoff after sessions that were too short. Virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import MockClock

from sarameya import Claim, Session, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Retrying
from sarameya.protocol.versions import Api
from tests.group.kit import Running, deadline, eventually
from tests.group.test_cooperative import Partitions, start

TOPICS = ("more", "orders", "users")


class Short(Partitions):
    """A handler that ends its first two sessions at once, during a join that is answered before the session ends."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.member: Running | None = None

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        if (nth := len(self.sessions)) < 3:
            await trio.sleep(0.01)
            assert self.member is not None
            self._cluster.delay_next(Api.JOIN_GROUP, 0.3)
            self.member.group.subscribe(TOPICS[: nth + 1])
            await trio.sleep(0.1)
            return
        async for _ in claim:
            pass

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await trio.sleep(0.6)


async def start_backing_off(nursery: trio.Nursery, cluster: EmbeddedCluster, one: Short) -> Running:
    """Start a member, and return it in a backoff of about ten seconds with partitions assigned."""
    member = one.member = await start(
        nursery, cluster, one, topics=TOPICS[:1], retry_backoff=10.0, retry_backoff_max=10.0
    )
    await eventually(lambda: any(e.what == "session" for e in member.seen(Retrying)))
    return member


def three_topics() -> EmbeddedCluster:
    return EmbeddedCluster(topics=dict.fromkeys(TOPICS, 1), in_memory=True, seed=1)


async def test_membership_lost_during_the_backoff_is_replaced(autojump_clock: MockClock) -> None:
    async with three_topics() as cluster, deadline() as nursery:
        one = Short(cluster)
        member = await start_backing_off(nursery, cluster, one)
        (me,) = cluster.describe_group("g").members
        cluster.expire_member("g", me.member_id)
        await one.until(lambda: len(one.sessions) == 3)
        assert one.sessions[-1].member_id != me.member_id
        assert [m.member_id for m in cluster.describe_group("g").members] == [one.sessions[-1].member_id]
        assert member.error is None


async def test_rebalance_during_the_backoff_is_joined_at_once(autojump_clock: MockClock) -> None:
    async with three_topics() as cluster, deadline() as nursery:
        one, two = Short(cluster), Partitions()
        await start_backing_off(nursery, cluster, one)
        began = trio.current_time()
        await start(nursery, cluster, two, topics=TOPICS)
        await two.until(lambda: len(two.sessions) == 1)
        assert trio.current_time() - began < 4, "a heartbeat reports the rebalance, and no partition is revoked first"
        await eventually(lambda: len({*two.sessions[-1].claims, *one.sessions[-1].claims}) == 3)
