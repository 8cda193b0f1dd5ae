"""Fetch sessions (KIP-227), as a broker sees them. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, Message, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import LeaderChanged, Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, watch_fetches
from tests.group.kit import Recorder, deadline, fill, orders, start_member


async def test_quiet_partitions_do_not_travel(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = watch_fetches(monkeypatch)
    async with orders(200) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        assert {len(named) for named in fetches.partitions()} == {200, 0}
        begun = len(fetches.seen)
        fill(cluster, 1, 7)
        await handler.received(1)
        await trio.sleep(5)
        assert [named for named in fetches.partitions(begun) if named] == [[7]]
        assert fetches.versions == {17}, "topics are named by their ids"


async def test_partition_without_room_is_forgotten_and_comes_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = trio.Event()

    async def wait_on_zero(session: Session, claim: Claim, message: Message) -> None:
        if claim.partition == 0:
            await release.wait()

    fetches = watch_fetches(monkeypatch)
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 100, 0)
        handler = Recorder(wait_on_zero)
        await start_member(nursery, cluster, handler, fetch_max_partition_bytes=500, max_processing_time=0.5)
        await trio.sleep(5)
        forgotten = [list(t.partitions) for _, body in fetches.seen for t in body.forgotten_topics_data or ()]
        assert forgotten == [[0]]
        begun = len(fetches.seen)
        await trio.sleep(5)
        assert not any(fetches.partitions(begun))
        release.set()
        await handler.received(100)
        assert handler.offsets("orders", 0) == list(range(100))


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
async def test_session_that_the_broker_has_lost_is_begun_anew_unsaid(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    fetches = watch_fetches(monkeypatch)
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(2)
        begun = len(fetches.seen)
        cluster.fail_next(Api.FETCH, code)
        await trio.sleep(2)
        assert [sorted(named) for named in fetches.partitions(begun) if named] == [[0, 1]]
        fill(cluster, 5, 1)
        await handler.received(5)
        assert not member.seen(Retrying)
        assert not member.seen(LeaderChanged)


async def test_broker_with_no_room_for_sessions_is_told_everything_each_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = watch_fetches(monkeypatch)
    cluster = EmbeddedCluster(topics={"orders": 3}, in_memory=True, seed=1, fetch_session_slots=0)
    async with cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        for partition in range(3):
            fill(cluster, 5, partition)
            await trio.sleep(1)
        await handler.received(15)
        assert {len(named) for named in fetches.partitions()} == {3}


async def test_broker_that_answers_nothing_before_its_time_is_not_asked_in_a_hot_loop(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say_nothing(request: Any, answer: Any) -> None:
        if began < trio.current_time() < began + 20:
            answer.responses = []

    fetches = watch_fetches(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        began = trio.current_time() + 2
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        edit_answers(monkeypatch, Api.FETCH, say_nothing)
        fill(cluster, 5)
        begun = len(fetches.seen)
        await trio.sleep(10)
        assert 5 < len(fetches.seen) - begun < 40
        (cause,) = {retrying.cause for retrying in member.seen(Retrying)}
        assert cause == "an answer that says nothing, before its time"
        await handler.received(5)


async def test_restarted_broker_is_read_on_in_a_session_of_its_own(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        fill(cluster, 5, 0)
        await handler.received(5)
        await cluster.stop_broker(0)
        await trio.sleep(1)
        await cluster.start_broker(0)
        fill(cluster, 5, 0)
        fill(cluster, 5, 1)
        await handler.received(15)
        assert handler.offsets("orders", 0) == list(range(10))
