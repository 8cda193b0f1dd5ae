"""Fetch sessions (KIP-227), as a broker sees them. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, Message, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.apis import Call
from sarameya.observe import LeaderChanged, Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, on_request, watch_fetches
from tests.group.kit import Recorder, deadline, fill, orders, start_member
from tests.group.standalone_kit import Watched, offsets_of


async def test_quiet_partitions_are_not_in_requests(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = watch_fetches(monkeypatch)
    async with orders(200) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        assert {len(named) for named in fetches.partitions()} == {200, 0}
        before = len(fetches.seen)
        fill(cluster, 1, 7)
        await handler.received(1)
        await trio.sleep(5)
        assert [named for named in fetches.partitions(before) if named] == [[7]]
        assert fetches.versions == {17}, "topics are named by their ids"


async def test_full_partition_leaves_the_fetch_session_and_returns(
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
        before = len(fetches.seen)
        await trio.sleep(5)
        assert not any(fetches.partitions(before))
        release.set()
        await handler.received(100)
        assert handler.offsets("orders", 0) == list(range(100))


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
async def test_lost_session_is_restarted_without_an_event(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    fetches = watch_fetches(monkeypatch)
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(2)
        before = len(fetches.seen)
        cluster.fail_next(Api.FETCH, code)
        await trio.sleep(2)
        assert [sorted(named) for named in fetches.partitions(before) if named] == [[0, 1]]
        fill(cluster, 5, 1)
        await handler.received(5)
        assert not member.seen(Retrying)
        assert not member.seen(LeaderChanged)


async def test_broker_without_fetch_sessions_gets_full_requests(
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


async def test_early_empty_responses_cause_no_hot_loop(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond_empty(request: Any, answer: Any) -> None:
        if began < trio.current_time() < began + 20:
            answer.responses = []

    fetches = watch_fetches(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        began = trio.current_time() + 2
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        edit_answers(monkeypatch, Api.FETCH, respond_empty)
        fill(cluster, 5)
        before = len(fetches.seen)
        await trio.sleep(10)
        assert 5 < len(fetches.seen) - before < 40
        (cause,) = {retrying.cause for retrying in member.seen(Retrying)}
        assert cause == "an empty response before fetch_max_wait"
        await handler.received(5)


async def test_responses_without_records_cause_no_hot_loop(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka responds like this while a follower is behind, or after a high watermark has fallen."""
    hurries = 0

    def hurry(call: Call) -> None:
        nonlocal hurries
        if hurries:  # not forever: a hot loop would stop the clock
            hurries -= 1
            call.body.max_wait_ms = 0

    fetches = watch_fetches(monkeypatch)
    on_request(monkeypatch, Api.FETCH, hurry)
    cluster = EmbeddedCluster(topics={"orders": 3}, in_memory=True, seed=1, fetch_session_slots=0)
    async with cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(3)
        hurries, before = 500, len(fetches.seen)
        await trio.sleep(10)
        assert 5 < len(fetches.seen) - before < 40
        assert member.seen(Retrying)
        fill(cluster, 5, 1)
        written = trio.current_time()
        await handler.received(5)
        assert trio.current_time() < written + 0.6, "other partitions wait no longer than a fetch"


async def test_response_for_an_ended_claim_does_not_delay_fetches(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 50)
        async with Watched(cluster, fetch_max_partition_bytes=100) as consumer:
            for start in range(30):  # each claim ends while the fetch after its first message is pending
                async with consumer.consume_partition("orders", 0, start) as claim:
                    assert await offsets_of(claim, 1) == [start]
        assert not consumer.seen(Retrying)


async def test_empty_response_by_a_quota_is_retried(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-219: the response has a throttle time and no partition, and starts no session."""
    throttled = 0

    def throttle(request: Any, answer: Any) -> None:
        nonlocal throttled
        if throttled < 5:
            throttled += 1
            answer.responses, answer.session_id, answer.throttle_time_ms = [], 0, 1000

    edit_answers(monkeypatch, Api.FETCH, throttle)
    fetches = watch_fetches(monkeypatch)
    async with orders(100) as cluster, deadline() as nursery:
        fill(cluster, 5, 7)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(5)
        assert [len(named) for named in fetches.full()] == [100] * 6
        assert not member.seen(LeaderChanged)


async def test_topic_id_learned_while_reading_is_used(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Happens while brokers are upgraded. Another topic, whose id is always known, is read at the same time."""

    def omit_id(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            if topic.name == "orders" and not has_id:
                topic.topic_id = uuid.UUID(int=0)

    has_id = False
    edit_answers(monkeypatch, Api.METADATA, omit_id)
    fetches = watch_fetches(monkeypatch)
    async with orders(2) as cluster, deadline() as nursery:
        cluster.create_topic("bills", 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, topics=("orders", "bills"), metadata_max_age=5.0)
        fill(cluster, 5, 1)
        await handler.received(5)
        assert fetches.versions == {12}
        has_id = True
        for _ in range(5):
            await trio.sleep(10)
            fill(cluster, 5, 1)
            fill(cluster, 5, topic="bills")
        await trio.sleep(10)
        assert handler.offsets("orders", 1) == list(range(30))
        assert handler.offsets("bills", 0) == list(range(25))
        assert fetches.versions == {12, 17}
        assert [sorted(named) for named in fetches.full()] == [[0, 0, 1]] * 2, "a second session, with topic ids"
        assert not member.seen(Retrying)


async def test_restarted_broker_is_read_in_a_new_session(autojump_clock: MockClock) -> None:
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
