"""A broker that sends invalid responses: each is a protocol error, and other brokers' partitions are still read."""

from __future__ import annotations

import struct
from random import Random

import pytest
import trio
from trio.testing import MockClock

from sarameya.observe import Retrying
from tests.group.kit import Recorder, committed, deadline, orders, start_member
from tests.net.garbling_transport import Garble, Garbling

SECONDS = 60
"""Seconds for which broker 1 sends invalid responses. It is a good one for as long before and after."""


def noise(rng: Random, frame: bytes) -> bytes:
    """Return random bytes of the same length; the first four announce a larger frame."""
    return b"\xff" + rng.randbytes(len(frame) - 1)


def web_page(rng: Random, frame: bytes) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


def giant(rng: Random, frame: bytes) -> bytes:
    return struct.pack(">i", 2**31 - 1) + frame[4:]


def other_body(rng: Random, frame: bytes) -> bytes:
    """Return a frame of the right size and correlation id, whose body is a varint that does not end."""
    return frame[:8] + b"\xff" * (len(frame) - 8)


def answer_to_another(rng: Random, frame: bytes) -> bytes:
    return frame[:4] + struct.pack(">i", 77_777) + frame[8:]


def twice(rng: Random, frame: bytes) -> bytes:
    return frame * 2


def longer(rng: Random, frame: bytes) -> bytes:
    return struct.pack(">i", len(frame) - 4 + 3) + frame[4:] + b"and"


def shorter(rng: Random, frame: bytes) -> bytes:
    return struct.pack(">i", len(frame) - 5) + frame[4:-1]


GARBLES = [noise, web_page, giant, other_body, answer_to_another, twice, longer, shorter]


@pytest.mark.parametrize("garble", GARBLES, ids=lambda garble: garble.__name__)
@pytest.mark.parametrize("coordinator", [0, 1], ids=["coordinator on the good broker", "coordinator on the bad broker"])
async def test_garbled_responses_stop_only_that_brokers_partitions(
    autojump_clock: MockClock, garble: Garble, coordinator: int
) -> None:
    async with orders(2, brokers=2) as cluster, deadline(1200) as nursery:
        cluster.move_coordinator("g", coordinator)
        transport = Garbling(cluster.transport, garble, host="broker-1")
        handler = Recorder()
        # The timeouts are long, so that no missed heartbeat ends the membership: this test is about bytes.
        member = await start_member(
            nursery, cluster, handler, transport=transport, session_timeout=300.0, rebalance_timeout=300.0
        )
        late: list[tuple[int, int]] = []
        for second in range(3 * SECONDS):
            transport.on = SECONDS <= second < 2 * SECONDS
            for partition in range(2):
                cluster.produce("orders", partition, b"%d" % second)
            await trio.sleep(1)
            late += [(second, p) for p in range(2) if len(handler.offsets("orders", p)) <= second]
        assert not [second for second, partition in late if partition == 0], "the good broker's partition is late"
        assert len(late) >= SECONDS - 2, "the bad broker's partition is not late"
        await handler.received(6 * SECONDS)
        assert transport.garbled > 10
        assert [handler.offsets("orders", p) for p in range(2)] == [list(range(3 * SECONDS))] * 2
        assert len(handler.sessions) == 1
        causes = {event.cause for event in member.seen(Retrying)}
        assert any("broker-1:9092" in cause for cause in causes), causes
        await trio.sleep(30)
        await member.close()
        assert member.error is None
        assert committed(cluster) == {"orders-0": 3 * SECONDS, "orders-1": 3 * SECONDS}
