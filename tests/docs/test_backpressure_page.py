"""Programs of docs/backpressure.md run unchanged, in virtual time."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, Config, ConsumerGroup, Session, observe
from sarameya.testing import run_inline, virtual_wall_clock
from tests.docs.pages import blocks, page
from tests.group.kit import deadline, eventually, fill, orders

PAGE = page("backpressure")


@pytest.fixture
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    return names


async def test_slow_partition_is_backpressured_alone(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 20, 0)
        fill(cluster, 20, 1)
        watch, slow = shown["Watch"](), shown["Slow"]()
        group = ConsumerGroup(
            cluster.bootstrap_servers,
            "g",
            Config(offset_initial="oldest"),
            observers=[watch],
            transport=cluster.transport,
            run_sync=run_inline,
            wall_clock=virtual_wall_clock,
        )
        async with group:
            nursery.start_soon(group.consume, ["orders"], slow)
            await eventually(lambda: slow.seen[1] == 20)
            assert slow.seen[0] <= 1
            fill(cluster, 20, 0)  # these wait while the handler has the first twenty
            await eventually(lambda: watch.now == {0})
            assert shown["backpressured"](group) == [0]
            before = trio.current_time()
            await eventually(lambda: slow.seen[0] == 40)
            assert trio.current_time() - before == pytest.approx(40, abs=2)
            await eventually(lambda: watch.now == set())
            assert 15 < watch.seconds < 40
            assert slow.was_backpressured
            assert shown["backpressured"](group) == []
            await group.close()


def test_names_exist() -> None:
    for owner, name in re.findall(r"`(session|claim)\.(\w+)", PAGE):
        assert hasattr({"session": Session, "claim": Claim}[owner], name)
    for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE):
        assert hasattr(Config(), name)
    for name in re.findall(r"`((?:Partition|Backpressure)\w+)`", PAGE):
        assert hasattr(observe, name)
