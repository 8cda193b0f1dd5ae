"""Rebalances that wait for a call of the handler: none is lost, and each has a deadline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import sarameya.net.metadata_refresher
from sarameya import Claim, Session, TopicPartition
from sarameya.observe import MembershipChanged, SessionEnding
from sarameya.protocol.cluster.metadata import ClusterMetadata, from_response
from tests.group.kit import Recorder, deadline, eventually, orders
from tests.group.test_cooperative import Partitions, start


class SlowSetup(Partitions):
    """A recorder whose first `setup` takes long."""

    async def setup(self, session: Session) -> None:
        await super().setup(session)
        if len(self.sessions) == 1:
            await trio.sleep(12)


async def test_rebalance_waiting_for_a_call_continues_at_session_end(autojump_clock: MockClock) -> None:
    """An assignment and the next rebalance wait for a slow `setup`. Then the handler ends the session."""
    async with orders() as cluster, deadline() as nursery:
        one, two, three = SlowSetup(), Partitions(), Partitions()
        first = await start(nursery, cluster, one)
        await one.until(lambda: bool(one.sessions))
        await start(nursery, cluster, two)
        await eventually(lambda: cluster.describe_group("g").generation == 2)
        await start(nursery, cluster, three)
        await eventually(lambda: [e.after for e in first.seen(MembershipChanged)].count("REVOKING") == 2)
        one.sessions[-1].end("enough")
        with trio.fail_after(20):
            await three.until(lambda: bool(three.sessions))
        assert not [event for event in first.seen(MembershipChanged) if event.after == "LOST"]


async def test_rebalance_that_waits_for_a_call_has_a_deadline(autojump_clock: MockClock) -> None:
    """Kept claims are read meanwhile. If the member was expelled for its slow call, it would lose their marks."""

    class Slow(Partitions):
        async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await super().partitions_assigned(session, partitions)
            if len([call for call in self.calls if call.startswith("assigned")]) == 2:
                self._note("slow")
                await trio.sleep(100)

    async with orders(4) as cluster, deadline() as nursery:
        options: dict[str, Any] = {"rebalance_timeout": 20.0, "claim_grace": 2.0}
        one, two = Slow(), Partitions()
        second = await start(nursery, cluster, two, **options)
        await two.until(lambda: len(two.claims) == 4)
        first = await start(nursery, cluster, one, **options)
        await one.until(lambda: len(one.claims) == 2)
        await trio.sleep(3)
        await second.close()
        await one.until(lambda: "slow" in one.calls)
        # The first rebalance is answered at once, the next one has to wait.
        await start(nursery, cluster, Recorder(), **options)
        await trio.sleep(5)
        await start(nursery, cluster, Recorder(), **options)
        await trio.sleep(60)
        assert first.seen(SessionEnding), "the slow call was cancelled"
        assert not [event for event in first.seen(SessionEnding) if event.lost]
        assert not [event for event in first.seen(MembershipChanged) if event.after == "LOST"]


async def test_commits_use_the_new_generation_while_a_call_is_running(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one = SlowSetup()
        await start(nursery, cluster, one)
        await one.until(lambda: bool(one.sessions))
        await start(nursery, cluster, Partitions())
        await trio.sleep(5)
        generation = cluster.describe_group("g").generation
        assert generation == 2
        assert one.sessions[-1].generation == one.sessions[-1].group_metadata.generation_id == generation
        assert one.calls == ["setup"], "it is still in its first call"


async def test_topic_missing_from_one_response_is_not_revoked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started may not know all topics. Meanwhile a member without partitions joins."""
    is_incomplete = False

    def from_incomplete_response(answer: Any) -> ClusterMetadata:
        found = from_response(answer)
        return attrs.evolve(found, topics={}) if is_incomplete else found

    monkeypatch.setattr(sarameya.net.metadata_refresher, "from_response", from_incomplete_response)

    class Reads(Partitions):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                pass
            self._note("end")

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Reads(), Partitions()
        first = await start(nursery, cluster, one, topics=re.compile("orders.*"))
        await one.until(lambda: len(one.claims) == 2)
        await start(nursery, cluster, two)
        await eventually(lambda: len(one.claims) == len(two.claims) == 1)
        await trio.sleep(5)
        before = len(one.calls)
        await start(nursery, cluster, Recorder())
        await trio.sleep(0.3)
        is_incomplete = True
        runtime = first.group._runtime
        assert runtime is not None
        runtime.metadata.request_refresh()
        await trio.sleep(0.3)
        is_incomplete = False
        await trio.sleep(30)
        assert one.calls[before:] == []
