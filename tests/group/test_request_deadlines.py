"""The time that a member waits for a response, request by request. Virtual time; a broker that never responds."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, Message, Session
from sarameya.observe import ConnectionLost, Retrying, SessionEnding
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, eventually, fill, orders, start_member
from tests.group.received_requests import of, watch


async def test_join_may_take_longer_than_other_requests(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dawdle(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(20)

    received = watch(monkeypatch)
    options = {"rebalance_timeout": 60.0, "claim_grace": 30.0, "request_timeout": 2.0}
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(dawdle), Recorder()
        await start_member(nursery, cluster, one, **options)
        fill(cluster, 1)
        await eventually(lambda: bool(one.messages))
        began = trio.current_time()
        received.clear()
        second = await start_member(nursery, cluster, two, client_id="second", **options)
        await two.until(lambda: bool(two.sessions))
        assert trio.current_time() - began > 15, "the first has finished its message before it joined again"
        joins = [request for request in of(received, Api.JOIN_GROUP) if request.client_id == "second"]
        assert len(joins) == 2, "one to receive a member id, one with it"
        assert second.seen(Retrying) == []
        assert second.seen(ConnectionLost) == []


@pytest.mark.parametrize(
    ("api", "seconds"),
    [
        # Other members may delay it for the rebalance timeout; five seconds more are added.
        pytest.param(Api.JOIN_GROUP, 35.0, id="join"),
        # Half the session timeout, so that a lost sync is sent again in time.
        pytest.param(Api.SYNC_GROUP, 5.0, id="sync"),
    ],
)
async def test_first_join_and_sync_without_response_are_resent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, api: Api, seconds: float
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        cluster.drop_next(api, hang_up=False)
        handler = Recorder()
        options = {"rebalance_timeout": 30.0, "session_timeout": 10.0, "request_timeout": 2.0}
        member = await start_member(nursery, cluster, handler, **options)
        await handler.until(lambda: bool(handler.sessions))
        first, second = of(received, api)[:2]
        assert seconds <= second.at - first.at <= seconds + 0.2
        assert member.seen(Retrying)[0].what == f"{api.name.split('_')[0].lower()} of group g"


async def test_heartbeat_without_response_is_retried_in_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, session_timeout=12.0, heartbeat_interval=3.0)
        await handler.until(lambda: bool(handler.sessions))
        cluster.drop_next(Api.HEARTBEAT, hang_up=False)
        await trio.sleep(60)
        first, second = of(received, Api.HEARTBEAT)[:2]
        assert 6.0 <= second.at - first.at <= 6.2, "half the session timeout, and one backoff"
        assert member.seen(SessionEnding) == []
        assert len(cluster.describe_group("g").members) == 1, "the member was never removed"


async def test_commit_and_offset_fetch_use_the_request_timeout(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        cluster.drop_next(Api.OFFSET_FETCH, hang_up=False)
        handler = Recorder()
        await start_member(nursery, cluster, handler, request_timeout=4.0)
        await eventually(lambda: committed(cluster) == {"orders-0": 0})
        cluster.drop_next(Api.OFFSET_COMMIT, hang_up=False)
        fill(cluster, 3)
        await handler.received(3)
        await trio.sleep(10)
        for api, place in ((Api.OFFSET_FETCH, 0), (Api.OFFSET_COMMIT, 1)):
            first, second = of(received, api)[place : place + 2]
            assert 4.0 <= second.at - first.at <= 4.2
        assert committed(cluster) == {"orders-0": 3}
        assert len(handler.sessions) == 1
