"""The topics that a leader assigns, while one generation overtakes another."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from sarameya.observe import MembershipChanged, Retrying
from sarameya.protocol.versions import Api
from tests.group.kit import deadline, eventually, orders, start_member
from tests.group.test_cooperative import Partitions


async def test_assignment_of_an_old_round_does_not_hide_growth(autojump_clock: MockClock) -> None:
    """The leader looks up a missing topic, and is expelled. Its next generation assigns without that topic. A partition
    added then must not count as assigned because the look-up of the old generation has seen it, too."""
    one = Partitions()
    async with orders(2) as cluster, deadline() as nursery:
        options = {"session_timeout": 30.0, "heartbeat_interval": 0.3, "metadata_max_age": 15.0}
        member = await start_member(nursery, cluster, one, client_id="one", **options)
        await one.until(lambda: one.claims == (0, 1))
        member.group.subscribe(["orders", "missing"])
        await eventually(lambda: any("partitions to assign" in e.what for e in member.seen(Retrying)))
        (id_,) = (each.member_id for each in cluster.describe_group("g").members)
        cluster.expire_member("g", id_)
        member.group.subscribe(["orders"])
        cluster.delay_next(Api.SYNC_GROUP, 6.0, 1, client_id="one")
        await eventually(lambda: cluster.describe_group("g").state.name == "STABLE")
        cluster.add_partitions("orders", 3)
        await trio.sleep(40)
        assert any(e.after == "LOST" for e in member.seen(MembershipChanged))
        assert one.claims == (0, 1, 2)
