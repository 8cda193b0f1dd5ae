"""A group whose connections hang, drip or are reset in the middle of a frame loses, repeats and leaves over nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import get_args

import pytest
import trio
from trio.testing import MockClock

from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, orders, start_member
from tests.net.breaking import Breaking, Half, How

MESSAGES = 20
EVERY = 0.5
"""Seconds from one message to the next, so that there is always a fetch under way."""

ASKED = [
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
    """Bytes to break at: every one of them in a soak; else one inside the header and the last, more of a fetch's."""
    if "SARAMEYA_SOAK" in os.environ:
        return range(size)
    return sorted({0, 3, 8, 21, size // 2, size - 1} if api is Api.FETCH else {6, size - 1})


async def life(api: Api, how: How, half: Half, at: int) -> Breaking:
    """A member reads what is written meanwhile to two partitions, and closes."""
    async with orders(2) as cluster, deadline(900) as nursery:
        transport = Breaking(cluster.transport, api, how, half, at)
        handler = Recorder()
        # Longer than one request's time-out: the first answer to Metadata may be the one that never comes.
        member = await start_member(nursery, cluster, handler, transport=transport, bootstrap_timeout=60.0)
        for n in range(MESSAGES):
            cluster.produce("orders", n % 2, b"%d" % n)
            await trio.sleep(EVERY)
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


@pytest.mark.parametrize("api", ASKED, ids=lambda api: api.name)
@pytest.mark.parametrize("half", get_args(Half))
@pytest.mark.parametrize("how", get_args(How))
async def test_frame_that_breaks_anywhere_loses_and_repeats_nothing(
    autojump_clock: MockClock, api: Api, half: Half, how: How
) -> None:
    size = (await life(api, how, half, 2**31)).sizes[half]
    for at in places(api, size):
        assert (await life(api, how, half, at)).has_broken
