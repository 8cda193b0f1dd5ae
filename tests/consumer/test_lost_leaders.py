"""Leaders that are lost or deposed: what it costs to find the next one, and who is believed. Virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import ErrorCode
from sarameya.embedded.apis import Call
from sarameya.observe import LeaderChanged, OffsetReset, Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, on_request, watch_fetches
from tests.group.kit import Recorder, deadline, fill, orders, start_member


async def test_partitions_lost_together_are_looked_up_together(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def note(call: Call) -> None:
        looks.append(trio.current_time())

    on_request(monkeypatch, Api.METADATA, note)
    async with orders(400, brokers=2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        looks.clear()
        member.events.clear()
        await cluster.stop_broker(1)
        await trio.sleep(10)
        assert 1 <= len(looks) <= 3
        (retrying,) = (e for e in member.seen(Retrying) if e.what.startswith("leader of "))
        assert retrying.what.endswith(" and 199 more")
        assert len([e for e in member.seen(LeaderChanged) if e.after == 0]) == 200
        for partition in range(400):
            fill(cluster, 1, partition)
        await handler.received(400)


async def test_lagging_metadata_does_not_restore_an_old_leader(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lags = False

    def tell_of_the_first_leader(request: Any, answer: Any) -> None:
        for topic in answer.topics if lags else ():
            for partition in topic.partitions:
                partition.leader_id, partition.leader_epoch = 0, 0

    edit_answers(monkeypatch, Api.METADATA, tell_of_the_first_leader)
    fetches = watch_fetches(monkeypatch)
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await handler.received(20)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 20)
        await handler.received(40)
        lags = True
        fetches.clear()
        cluster.fail_next(Api.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await trio.sleep(5)
        fill(cluster, 5)
        await handler.received(45)
        assert set(fetches.of(0)) == {1}
        assert handler.offsets("orders", 0) == list(range(45))
        assert not member.seen(OffsetReset)
