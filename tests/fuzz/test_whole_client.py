"""Members of a group whose brokers' responses are mutated: they continue, or end with a typed error.

A mutated response may be decodable and still wrong: partitions that do not exist, brokers without an address, negative
offsets, impossible errors. A client cannot detect that, so these tests do not check the messages that are read.
"""

from __future__ import annotations

import os
import struct
from random import Random

import pytest
import trio
from trio.testing import MockClock

from sarameya import ClaimError, SarameyaError
from tests.fuzz.mutations import mutated
from tests.group.kit import Recorder, deadline, orders, start_member
from tests.net.garbling_transport import Garbling

RUNS = 30 * int(os.environ.get("SARAMEYA_SOAK", "1"))
SECONDS = 60


def mutate_one_in(often: int, rng: Random, frame: bytes) -> bytes:
    """Mutate one in `often` responses after the correlation id, and correct the size."""
    if rng.randrange(often):
        return frame
    body = mutated(rng, frame[8:])
    return struct.pack(">i", 4 + len(body)) + frame[4:8] + body


def causes(error: BaseException) -> list[BaseException]:
    """Return the single exceptions of a group, with the cause in place of a ClaimError."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in causes(inner)]
    return causes(error.cause) if isinstance(error, ClaimError) else [error]


@pytest.mark.parametrize("seed", range(RUNS))
async def test_mutated_responses_raise_only_typed_errors(autojump_clock: MockClock, seed: int) -> None:
    rng = Random(seed)
    often = rng.choice((1, 2, 5, 20))
    async with orders(3, brokers=2) as cluster, deadline(3600) as nursery:
        transport = Garbling(cluster.transport, lambda rng, frame: mutate_one_in(often, rng, frame), seed=seed)
        transport.on = bool(rng.randrange(3))
        strategy = rng.choice(("range", "sticky", "cooperative-sticky"))
        options = {"rebalance_strategies": (strategy,), "close_timeout": 5.0}
        members = [await start_member(nursery, cluster, Recorder(), transport=transport, **options) for _ in range(2)]
        for second in range(SECONDS):
            transport.on = transport.on or second > 10
            cluster.produce("orders", second % 3, b"%d" % second)
            await trio.sleep(1)
        began = trio.current_time()
        for member in members:
            await member.close()
            if member.error is not None:
                assert {SarameyaError} == {
                    SarameyaError if isinstance(cause, SarameyaError) else type(cause) for cause in causes(member.error)
                }
        assert trio.current_time() - began < 120
        assert transport.garbled
