"""Slow landings, committed offsets that expire or are reset, restored tables, idle topics.

Real members land in Parquet, in virtual time.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sarameya import ClaimError
from sarameya_handlers.landing.errors import ChainError, MovedCommitError, RewoundTableError
from sarameya_handlers.landing.links import Kind
from tests.conformance.brokers import GROUP
from tests.conformance.groups import LandingGroup, landing_group
from tests.conformance.invariants import chain_of
from tests.conformance.loop_sessions import NO_SPARK
from tests.group.kit import Running

pytestmark = pytest.mark.usefixtures("unsynced")


async def test_flush_longer_than_timeouts_keeps_the_membership(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path) as group:
        member = await group.join(seconds=100, config={"session_timeout": 10.0, "rebalance_timeout": 60.0})
        group.produce(25)
        began = trio.current_time()
        await group.until_landed()
        assert trio.current_time() - began >= 300
        assert group.cluster.describe_group(GROUP).generation == 1, "no rebalance: heartbeats continued"
        assert member.error is None
        group.prove()


async def test_flush_running_at_the_revocation_deadline_is_cancelled(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The deadline of the rebalance comes first; the next owner lands the batch."""
    async with landing_group(tmp_path, partitions=2) as group:
        slow = await group.join(seconds=1000, config={"rebalance_timeout": 60.0})
        group.produce(25)
        await trio.sleep(10)
        assert group.engines[0].landing == 1
        other = await group.join()
        joined = trio.current_time()
        while len(group.cluster.describe_group(GROUP).members) < 2 or not group.engines[0].cancelled:
            await trio.sleep(0.1)
        assert trio.current_time() - joined < 60
        group.engines[0].seconds = 0.0
        await group.until_landed()
        assert (slow.error, other.error) == (None, None)
        assert len(group.cluster.describe_group(GROUP).members) == 2, "both are still members"
        group.prove()


async def test_expired_offsets_are_restored_from_the_table(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path, partitions=2) as group:
        await land_and_leave(group)
        await group.forget()
        assert group.committed == {}
        await land_more(group)


async def test_offsets_reset_to_the_beginning_duplicate_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Landing the records again needs another sink name, or another table."""
    async with landing_group(tmp_path, partitions=2) as group:
        await land_and_leave(group)
        await group.commit(0)
        await land_more(group)


async def test_offsets_reset_beyond_the_table_are_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path, partitions=2) as group:
        await land_and_leave(group)
        group.produce(20)
        await group.commit(45)
        await check_refused(await group.join(), MovedCommitError)


@pytest.mark.parametrize("moved", [45, 55], ids=["into the log", "to its end"])
async def test_offsets_reset_beyond_the_table_leave_an_allowed_gap(
    tmp_path: Path, moved: int, autojump_clock: MockClock
) -> None:
    """The gap is not taken for a truncated log, although the leader epochs have changed since the last link."""
    async with landing_group(tmp_path, partitions=2, brokers=2) as group:
        await land_and_leave(group)
        group.renew_leaders()
        group.produce(20)
        await group.commit(moved)
        for _ in range(2):
            member = await group.join(on_missing="leave_out")
            while {key: head.to_offset for key, head in group.heads.items()} != group.ends:
                assert member.error is None
                await trio.sleep(0.5)
            await group.until_landed()
            await member.close()
            group.renew_leaders()
            group.produce(5)
        for key in group.keys:
            links = chain_of(group.parquet, NO_SPARK, key)
            assert [(one.from_offset, one.to_offset) for one in links if one.kind is Kind.GAP] == [(35, moved)]
            assert sum(one.rows for one in links) == 35 + 60 - moved


async def test_restored_table_is_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    directory, backup = tmp_path / "table", tmp_path / "backup"
    async with landing_group(directory, partitions=2) as group:
        await land_and_leave(group)
        shutil.copytree(directory, backup)
        await land_more(group)
        shutil.rmtree(directory)
        backup.rename(directory)
        await check_refused(await group.join(), RewoundTableError)


async def test_dropped_table_is_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path / "table", partitions=2) as group:
        await land_and_leave(group)
        shutil.rmtree(group.directory)
        await check_refused(await group.join(), RewoundTableError)


async def test_table_restored_while_landing_stops_the_sink(tmp_path: Path, autojump_clock: MockClock) -> None:
    directory, backup = tmp_path / "table", tmp_path / "backup"
    async with landing_group(directory) as group:
        member = await group.join()
        group.produce(30)
        await group.until_landed()
        shutil.copytree(directory, backup)
        group.produce(30)
        await group.until_landed()
        shutil.rmtree(directory)
        backup.rename(directory)
        group.produce(30)
        await check_refused(member, ChainError)


async def test_single_record_of_an_idle_topic_lands_after_max_age(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path) as group:
        await group.join(max_rows=1_000_000, max_age=30.0)
        await trio.sleep(100)
        for _ in range(2):
            group.produce(1)
            produced = trio.current_time()
            await group.until_landed()
            assert 30 <= trio.current_time() - produced <= 32
            await trio.sleep(100)
        group.prove()


async def land_and_leave(group: LandingGroup) -> None:
    """Land everything; then the only member leaves."""
    member = await group.join()
    group.produce(35)
    await group.until_landed()
    await member.close()
    group.prove()


async def land_more(group: LandingGroup) -> None:
    member = await group.join()
    group.produce(10)
    await group.until_landed()
    await member.close()
    group.prove()


async def check_refused(member: Running, error: type[ChainError]) -> None:
    """Check that the member ends with this error."""
    await member.ended.wait()
    raised: BaseException | None = member.error
    while isinstance(raised, BaseExceptionGroup):
        raised = raised.exceptions[0]
    if isinstance(raised, ClaimError):
        raised = raised.__cause__
    assert isinstance(raised, error), raised
