"""A process dies, its disk is full, or a file server answers late, at each call of a landing that changes files.

For the tables that land without Spark: a Parquet directory, and a Delta table whose commits Sarameya writes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya_handlers import ParquetTable
from sarameya_handlers.spark.delta import row_files
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Shape, Table
from tests.conformance.adoptions import AdoptedDelta, WrittenShape, write_each
from tests.conformance.disk_faults import NAMING, Died, Disk
from tests.conformance.loop_sessions import LoopEngine, World
from tests.conformance.results import DELTA, row

pytestmark = [
    pytest.mark.usefixtures("unsynced"),
    pytest.mark.landing(what="killed"),
]

FULL_SECONDS = 100.0


@attrs.frozen
class Kind:
    """A table, the shape of its rows, and the calls by which its landings create names."""

    table: Callable[[Path], Table]
    naming: frozenset[str]
    shape: Shape = attrs.field(factory=Shaping)

    def world(self, directory: Path) -> World:
        return World(self.table(directory), partitions=1, shape=self.shape)


KINDS = {
    "parquet": Kind(ParquetTable, frozenset(NAMING)),
    "delta": Kind(AdoptedDelta, frozenset({"link"})),
    "delta-written": Kind(AdoptedDelta, frozenset(NAMING), WrittenShape()),
}


@pytest.fixture(
    params=[
        pytest.param("parquet", marks=row("Parquet", "local disk", "none")),
        *(pytest.param(kind, marks=row(DELTA, "local disk", "none")) for kind in ("delta", "delta-written")),
    ]
)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    monkeypatch.setattr(row_files, "write_each", write_each)
    return KINDS[request.param]


def run(scenario: Callable[[World, Disk], object], world: World, disk: Disk) -> None:
    async def main() -> None:
        with trio.fail_after(1000):
            await scenario(world, disk)  # type: ignore[misc]

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def land(world: World, disk: Disk, *, waits: bool = False) -> None:
    async with world.sink(LoopEngine()) as sink:
        with pytest.MonkeyPatch.context() as patched:
            disk.install(patched)
            await world.session(sink, waits=waits)


async def land_and_die(world: World, disk: Disk) -> None:
    try:
        await land(world, disk)
    except BaseExceptionGroup as group:
        if group.split(Died)[1] is not None:
            raise
    await world.land_the_rest()
    world.sweep()
    world.prove()
    assert world.leftovers == []


async def land_on_full_disk(world: World, disk: Disk) -> None:
    """Land while the disk is full: the session continues, and lands the batches when there is space again."""
    await land(world, disk, waits=True)
    world.prove()
    assert world.leftovers == []


async def late_call_before_the_retry(world: World, disk: Disk) -> None:
    """Execute the delayed call after its landing has failed, and before the next attempt."""

    async def catch_up() -> None:
        await disk.timed_out.wait()
        disk.catch_up()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(catch_up)
        await land(world, disk, waits=True)
    await world.land_the_rest()


async def late_call_after_the_retry(world: World, disk: Disk) -> None:
    """Execute the delayed call after the next attempt has landed."""
    await land(world, disk, waits=True)
    disk.catch_up()
    await world.land_the_rest()
    world.sweep()
    world.prove()
    assert world.leftovers == []


def calls_of_a_session(world: World) -> list[str]:
    disk = Disk()
    run(land, world, disk)
    assert len(disk.calls) >= 20
    return disk.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_any_call_loses_and_duplicates_nothing(after: bool, kind: Kind, tmp_path: Path) -> None:
    for number, name in enumerate(calls_of_a_session(kind.world(tmp_path / "whole")), 1):
        disk = Disk()
        disk.die_at(number, after=after)
        try:
            run(land_and_die, kind.world(tmp_path / str(number)), disk)
        except BaseException as error:
            error.add_note(f"died {'after' if after else 'before'} call {number}, {name}")
            raise


def test_disk_full_at_any_call_delays_the_landing(kind: Kind, tmp_path: Path) -> None:
    for number, name in enumerate(calls_of_a_session(kind.world(tmp_path / "whole")), 1):
        disk = Disk()
        disk.fill_at(number, until=lambda: trio.current_time() >= FULL_SECONDS)
        try:
            run(land_on_full_disk, kind.world(tmp_path / str(number)), disk)
        except BaseException as error:
            error.add_note(f"the disk was full from call {number} on, {name}")
            raise


@pytest.mark.parametrize("scenario", [late_call_before_the_retry, late_call_after_the_retry])
def test_late_effect_of_a_timed_out_call_loses_nothing(
    scenario: Callable[[World, Disk], object], kind: Kind, tmp_path: Path
) -> None:
    calls = calls_of_a_session(kind.world(tmp_path / "whole"))
    assert {*NAMING} & {*calls} == kind.naming
    for number, name in enumerate(calls, 1):
        if name not in NAMING:
            continue
        disk = Disk()
        disk.delay(number)
        try:
            run(scenario, kind.world(tmp_path / str(number)), disk)
        except BaseException as error:
            error.add_note(f"call {number}, {name}, was executed late")
            raise
