"""Rebalances while Spark or a store is down: members stay in their group, and continue when it is back.

Real members land in Parquet, in virtual time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.conformance.brokers import GROUP
from tests.conformance.groups import FaultyTable, LandingGroup, landing_group
from tests.group.kit import Running

pytestmark = pytest.mark.usefixtures("unsynced")

DOWN_SECONDS = 600.0
COOPERATIVE = {"rebalance_strategies": ("cooperative-sticky",)}


@pytest.mark.parametrize("config", [{}, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("states_heads", [False, True], ids=["silent", "states heads"])
async def test_spark_down_for_ten_minutes_keeps_the_membership(
    tmp_path: Path, autojump_clock: MockClock, config: dict[str, object], states_heads: bool
) -> None:
    async with landing_group(tmp_path, partitions=3) as group:
        table = FaultyTable(group.parquet)
        table.states_heads = states_heads
        first = await group.join(table=table, config=config)
        group.produce(25)
        await group.until_landed()

        group.engines[0].is_gone = True
        group.produce(25)
        others = []
        for number in (1, 2):
            others.append(await group.join(table=table, config=config))
            group.engines[number].is_gone = True
            await trio.sleep(DOWN_SECONDS / 2)
        for engine in group.engines:
            engine.is_gone = False
        await check_landing_continues(group, first, *others)


async def test_failed_read_of_heads_is_retried(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path, partitions=2) as group:
        table = FaultyTable(group.parquet)
        first = await group.join(table=table)
        group.produce(25)
        await group.until_landed()

        back = trio.current_time() + DOWN_SECONDS
        table.heads_error = lambda: OSError("503 Slow Down") if trio.current_time() < back else None
        second = await group.join(table=table)
        await trio.sleep(DOWN_SECONDS)
        group.produce(25)
        await check_landing_continues(group, first, second)


async def check_landing_continues(group: LandingGroup, *members: Running) -> None:
    assert [member.error for member in members] == [None] * len(members)
    assert len(group.cluster.describe_group(GROUP).members) == len(members)
    await group.until_landed()
    group.prove()
    assert not any(member.ended.is_set() for member in members)
