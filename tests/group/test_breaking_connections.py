"""Connections that hang, drip or are reset inside a frame: no message is lost or repeated, no connection stays open."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import get_args

import pytest
import trio
from trio.testing import MockClock

from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, orders, start_member
from tests.net.breaking_transport import Breaking, Half, How

MESSAGES = 20
INTERVAL = 0.5
"""Seconds from one message to the next, so that a fetch is always pending."""

APIS = [
    Api.API_VERSIONS,
    Api.METADATA,
    Api.FIND_COORDINATOR,
    Api.JOIN_GROUP,
    Api.SYNC_GROUP,
    Api.HEARTBEAT,
    Api.OFFSET_FETCH,
    Api.OFFSET_COMMIT,
    Api.LIST_OFFSETS,
    Api.FETCH,
]


def places(api: Api, size: int) -> Iterable[int]:
    """Return the bytes to break at: all in a soak; else one in the header and the last one, and more for a fetch."""
    if "SARAMEYA_SOAK" in os.environ:
        return range(size)
    return sorted({0, 3, 8, 21, size // 2, size - 1} if api is Api.FETCH else {6, size - 1})


async def run_member(api: Api, how: How, half: Half, at: int) -> Breaking:
    """Run a member that reads two partitions while they are written, and close it."""
    async with orders(2) as cluster, deadline(900) as nursery:
        transport = Breaking(cluster.transport, api, how, half, at)
        handler = Recorder()
        # Longer than the timeout of one request: the first response to Metadata may be the one that never comes.
        member = await start_member(nursery, cluster, handler, transport=transport, bootstrap_timeout=60.0)
        for n in range(MESSAGES):
            cluster.produce("orders", n % 2, b"%d" % n)
            await trio.sleep(INTERVAL)
        await handler.received(MESSAGES)
        for partition in range(2):
            assert handler.offsets("orders", partition) == list(range(MESSAGES // 2)), (at, partition)
        await trio.sleep(45)
        await member.close()
        assert member.error is None, at
        assert len(handler.messages) == MESSAGES, at
        assert committed(cluster) == {"orders-0": MESSAGES // 2, "orders-1": MESSAGES // 2}, at
        assert transport.open == 0, at
        return transport


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("half", get_args(Half))
@pytest.mark.parametrize("how", get_args(How))
async def test_broken_frame_loses_and_repeats_no_message(
    autojump_clock: MockClock, api: Api, half: Half, how: How
) -> None:
    size = (await run_member(api, how, half, 2**31)).sizes[half]
    for at in places(api, size):
        assert (await run_member(api, how, half, at)).has_broken
