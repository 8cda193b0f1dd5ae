"""Reasons of joins and leaves, which the broker logs for operators (KIP-800)."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import ErrorCode
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, deadline, orders, start_member
from tests.group.received_requests import of, watch


async def test_each_join_has_a_reason(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        cluster.create_topic("returns", 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: len(handler.sessions) == 1)
        handler.sessions[0].end("the table has been rewound")
        await handler.until(lambda: len(handler.sessions) == 2)
        await trio.sleep(10)
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
        await handler.until(lambda: len(handler.sessions) == 3)
        await trio.sleep(10)
        member.group.subscribe(["orders", "returns"])
        await handler.until(lambda: len(handler.sessions) == 4)
        # Each join without a member id is sent twice (KIP-394).
        assert [request.body.reason for request in of(received, Api.JOIN_GROUP)] == [
            "the member starts",
            "the member starts",
            "the table has been rewound",
            "heartbeat: g: UNKNOWN_MEMBER_ID (25)",
            "heartbeat: g: UNKNOWN_MEMBER_ID (25)",
            "subscribed to orders, returns",
        ]


async def test_leave_has_a_reason(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        await member.group.close("the host is drained")
        (leave,) = of(received, Api.LEAVE_GROUP)
        assert [left.reason for left in leave.body.members] == ["the host is drained"]


async def test_reason_longer_than_kafkas_limit_is_truncated(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: len(handler.sessions) == 1)
        handler.sessions[0].end("x" * 300)
        await handler.until(lambda: len(handler.sessions) == 2)
        await member.group.close("y" * 300)
        assert of(received, Api.JOIN_GROUP)[-1].body.reason == "x" * 255
        assert of(received, Api.LEAVE_GROUP)[-1].body.members[0].reason == "y" * 255
