"""Chains under owners, zombies, crashes, late and lost writes, lost answers and restored tables: each record once.

And that this would be noticed: the same schedules find the two bugs that are made first by whoever writes such a sink.

The ordinary run is the same each time; `SARAMEYA_SOAK=40` makes forty times as many schedules, new ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from sarameya_handlers.landing.errors import ChainError, RewoundTableError
from sarameya_handlers.landing.links import Link
from tests.model.landing import Owner, Table, World, by_what_was_told

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))
SCHEDULES = 10_000
FOUND = (AssertionError, ChainError)
"""What a model that fails raises; anything else is a fault of the model's own, which finds nothing."""

Step = tuple[str, int, int]


def _everybody(world: World) -> list[Owner]:
    return [*world.zombies, *([world.owner] if world.owner else [])]


def _somebody(act: Callable[[Owner, int], None]) -> Callable[[World, int, int], None]:
    def step(world: World, who: int, how: int) -> None:
        if everybody := _everybody(world):
            act(everybody[-1 - who % len(everybody)], how)

    return step


def _write(world: World, _: int, how: int) -> None:
    world.end += how


def _take_over(world: World, _: int, __: int) -> None:
    world.take_over()


def _crash(world: World, who: int, _: int) -> None:
    if world.owner:
        world.crash(who)


def _land(owner: Owner, how: int) -> None:
    """All of a landing, with nobody in between."""
    owner.read(how)
    owner.propose(how)
    for place, write in enumerate(owner.world.pending):
        if write.owner is owner:
            owner.world.arrive(place, answered=True)
            break
    owner.settle()
    owner.commit()


def _lose(world: World, which: int, _: int) -> None:
    if world.pending:
        del world.pending[which % len(world.pending)]


def _restore(world: World, _: int, version: int) -> None:
    world.restore(version % (len(world.table.links) + 1))


STEPS: dict[str, Callable[[World, int, int], None]] = {
    "write": _write,
    "take over": _take_over,
    "land": _somebody(_land),
    "read": _somebody(Owner.read),
    "propose": _somebody(Owner.propose),
    "arrive": lambda world, which, how: world.arrive(which, answered=bool(how % 2)),
    "lose": _lose,
    "settle": _somebody(lambda owner, _: owner.settle()),
    "commit": _somebody(lambda owner, _: owner.commit()),
    "crash": _crash,
    "restore": _restore,
}
OFTEN = ("write", "read", "propose", "arrive", "settle", "land")
SCHEDULE = st.lists(
    st.tuples(st.sampled_from([*STEPS, *OFTEN, *OFTEN]), st.integers(0, 3), st.integers(0, 9)), max_size=40
)


def live(world: World, schedule: list[Step]) -> None:
    """Do all this, and let what is left be landed in the end. Raises AssertionError where a record is lost or repeated.

    A restored table stops whoever begins anew, where it has lost links that the group knows of: that is an end, too.
    """
    restored = False
    try:
        world.end = 5
        world.take_over()
        for name, who, how in schedule:
            restored |= name == "restore"
            STEPS[name](world, who, how)
            world.check()
        world.finish()
    except RewoundTableError:
        assert restored, "nobody has restored anything"
        world.check()
        return
    world.check()
    assert world.committed is not None
    assert world.committed.offset == world.end, "all has been landed"


@given(SCHEDULE)
@settings(
    max_examples=SCHEDULES * SOAK,
    deadline=None,
    derandomize=SOAK == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_each_record_is_landed_once_whatever_happens(schedule: list[Step]) -> None:
    live(World(), schedule)


class ByOffset(Table):
    """The bug of the offset as the version of a write: whatever ends beyond the last one is let in."""

    def may_append(self, link: Link) -> bool:
        return not self.links or link.to_offset > self.links[-1].to_offset


def _fails(make: Callable[[], World]) -> Callable[[list[Step]], bool]:
    def check(schedule: list[Step]) -> bool:
        try:
            live(make(), schedule)
        except FOUND:
            return True
        return False

    return check


@pytest.mark.parametrize(
    "make",
    [lambda: World(table=ByOffset()), lambda: World(find=by_what_was_told)],
    ids=["offset as version", "success believed"],
)
def test_known_bug_is_found(make: Callable[[], World]) -> None:
    try:
        found = find(
            SCHEDULE,
            _fails(make),
            settings=settings(
                max_examples=SCHEDULES, deadline=None, database=None, derandomize=True, phases=[Phase.generate]
            ),
        )
    except NoSuchExample:
        pytest.fail("no schedule of so many finds it")
    assert found
