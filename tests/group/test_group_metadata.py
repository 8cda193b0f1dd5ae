"""The identity of a session for a transactional producer (KIP-447), compared with the coordinator's."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from sarameya import GroupMetadata
from tests.group.kit import Recorder, deadline, orders, start_member


@pytest.mark.parametrize("instance", [None, "worker-1"])
async def test_group_metadata_of_a_session_matches_the_coordinator(
    autojump_clock: MockClock, instance: str | None
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler, group_instance_id=instance)
        await handler.until(lambda: "claim orders-1" in handler.calls)
        described = cluster.describe_group("g")
        (member,) = described.members
        assert member.group_instance_id == instance
        assert handler.sessions[0].group_metadata == GroupMetadata(
            "g", described.generation, member.member_id, instance
        )
