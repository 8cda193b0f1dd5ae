"""Lost and deposed leaders: the cost of finding the next one, and outdated metadata. Virtual time."""

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
    lookups: list[float] = []

    def record(call: Call) -> None:
        lookups.append(trio.current_time())

    on_request(monkeypatch, Api.METADATA, record)
    async with orders(400, brokers=2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        lookups.clear()
        member.events.clear()
        await cluster.stop_broker(1)
        await trio.sleep(10)
        assert 1 <= len(lookups) <= 3
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

    def name_the_first_leader(request: Any, answer: Any) -> None:
        for topic in answer.topics if lags else ():
            for partition in topic.partitions:
                partition.leader_id, partition.leader_epoch = 0, 0

    edit_answers(monkeypatch, Api.METADATA, name_the_first_leader)
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
