"""Chains under owners, zombies, rebalances, crashes, late and lost writes, lost answers, logs with gaps, tables that
are restored and tables that forget: each record once.

And that this would be noticed: the same schedules find the two bugs that are made first by whoever writes such a sink,
and some that are made later, by the loss or the repetition that they cause.

The ordinary run is the same each time; `SARAMEYA_SOAK=40` makes forty times as many schedules, new ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count

import attrs
import pytest
from hypothesis import HealthCheck, Phase, find, given, note, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from sarameya_handlers.landing.chain import AttemptState, Outcome
from sarameya_handlers.landing.errors import ChainError, ForeignChainError, ForgottenChainError, RewoundTableError
from sarameya_handlers.landing.links import ChainKey, CommitNote, Link, Origin, check_chain
from tests.model.landing import (
    ORIGIN,
    Claim,
    CommittedUnlandedError,
    ForgottenError,
    LandedTwiceError,
    Member,
    NotLandedError,
    World,
    by_adopting,
    by_count,
    by_reading_back,
    by_response,
    without_begin,
)
from tests.model.landing_tables import DeltaTable, ExpiringTable, IcebergTable, Table

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))
SCHEDULES = 10_000

Step = tuple[str, int, int]
Act = Callable[[World, int, int], None]


def _claim(act: Callable[[Claim, int], None]) -> Act:
    def step(world: World, who: int, how: int) -> None:
        if claims := list(world.claims()):
            act(claims[-1 - who % len(claims)], how)

    return step


def _member(act: Callable[[Member, int], None]) -> Act:
    def step(world: World, who: int, how: int) -> None:
        if members := [*world.zombies, *world.members]:
            act(members[-1 - who % len(members)], how)

    return step


def _log(act: Callable[[World, ChainKey, int], None]) -> Act:
    return lambda world, which, how: act(world, [*world.logs][which % len(world.logs)], how)


def _land(claim: Claim, how: int) -> None:
    """All of a landing, with nobody in between."""
    claim.read(how)
    claim.propose(how)
    world = claim.world
    for place, write in enumerate(world.pending):
        if write.claim is claim and claim.chain.state is AttemptState.TRYING:
            world.arrive(place, goes_through=True, is_answered=True)
            break
    claim.settle()
    claim.member.commit()


def _rebalance(world: World, who: int, how: int) -> None:
    """Somebody joins, is thought dead, or leaves; under an eager assignor, or a cooperative one."""
    match how % 4:
        case 0:
            world.join()
        case 1:
            world.fence(who)
        case 2 if world.members:
            world.crash(world.members[who % len(world.members)])
    world.rebalance(who, is_eager=how % 2 == 0)


def _lose(world: World, which: int, _: int) -> None:
    if world.pending:
        del world.pending[which % len(world.pending)]


def _restore(world: World, who: int, version: int) -> None:
    count = sum(map(len, world.table.commits.values()))
    world.restore(version % (count + 1), rewinds=bool(who % 4))


def _be_away(world: World, who: int, how: int) -> None:
    """Nobody lands for a long time, and what the group has committed may expire; zombies go on sleeping."""
    for member in list(world.members):
        world.crash(member)
    if how % 2:
        world.committed.clear()
    _pass(world, who, 2 * how)


def _pass(world: World, who: int, how: int) -> None:
    """Time, for a while; a table may be cleaned up then."""
    world.now += 3 * how
    if who % 2:
        world.table.forget(world.now)


STEPS: dict[str, Act] = {
    "write": _log(lambda world, key, how: world.logs[key].write(how + 1, are_visible=True)),
    "hide": _log(lambda world, key, how: world.logs[key].write(how + 1, are_visible=False)),
    "compact": _log(lambda world, key, how: world.logs[key].compact(how)),
    "rebalance": _rebalance,
    "crash": _member(lambda member, _: member.world.crash(member)),
    "land": _claim(_land),
    "read": _claim(Claim.read),
    "propose": _claim(Claim.propose),
    "flush": _member(Member.flush),
    "restate": _claim(lambda claim, _: claim.restate()),
    "arrive": lambda world, which, how: world.arrive(which, goes_through=how % 3 > 0, is_answered=how % 2 > 0),
    "lose": _lose,
    "settle": _claim(lambda claim, _: claim.settle()),
    "commit": _member(lambda member, _: member.commit()),
    "pass": _pass,
    "be away": _be_away,
    "restore": _restore,
    "reset": _log(World.reset),
}
OFTEN = ("write", "read", "propose", "arrive", "settle", "land")
NAMES = [*STEPS, *OFTEN, *OFTEN, "rebalance", "pass"]
LENGTH = (15, 60)
"""Of a schedule, in steps."""


def _steps(told: bytes) -> list[Step]:
    """Each of three bytes: drawn together, they take a fraction of the time that as many numbers do."""
    numbers = iter(told)
    return [
        (NAMES[name % len(NAMES)], who % 16, how % 10)
        for name, who, how in zip(numbers, numbers, numbers, strict=False)
    ]


FINDING = settings(max_examples=SCHEDULES, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
Find = Callable[[Claim, list[Link]], Outcome]
SCHEDULE = st.binary(min_size=3 * LENGTH[0], max_size=3 * LENGTH[1]).map(_steps)
PARTITIONS = st.integers(1, 3)


def live(world: World, schedule: list[Step]) -> None:
    """Do all this, and let what is left be landed in the end. Raises AssertionError where a record is lost or repeated.

    A restored table stops whoever begins anew, where it has lost links that the group knows of; one that has forgotten
    where a chain ends does, too, if nobody has stated that for longer than it keeps anything. Both are an end.
    """
    try:
        world.join()
        world.rebalance(0, is_eager=True)
        for name, who, how in schedule:
            STEPS[name](world, who, how)
        world.finish()
    except RewoundTableError:
        assert world.is_rewound, "nobody has restored anything"
    except ForgottenChainError:
        pass
    for key in world.logs:
        world.check(key)
        world.check_links(key)


@given(st.sampled_from([Table, DeltaTable, IcebergTable]), PARTITIONS, SCHEDULE)
@settings(
    max_examples=SCHEDULES * SOAK,
    deadline=None,
    derandomize=SOAK == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_each_record_is_landed_once_whatever_happens(
    table: Callable[[], Table], partitions: int, schedule: list[Step]
) -> None:
    note(f"{schedule}")
    live(World(table(), partitions), schedule)


OTHERS = (
    Origin(group="audit", topic_id=ORIGIN.topic_id),
    Origin(group=ORIGIN.group, topic_id="f" * 32),
    Origin(group=ORIGIN.group, cluster_id="other"),
)
"""Another group; the topic of another cluster; the same where brokers have no topic ids."""


def rival_worlds(other: Origin, find: Find = by_reading_back) -> tuple[World, World]:
    """Two services that land the same topic under one sink's name in one table, which knows nothing of either yet."""
    ours = attrs.evolve(ORIGIN, cluster_id="ours", topic_id=other.topic_id and ORIGIN.topic_id)
    table, attempts = Table(), count(1)
    first, second = (World(table, origin=origin, find=find, attempts=attempts) for origin in (ours, other))
    return first, second


def live_beside(worlds: tuple[World, World], schedule: list[Step]) -> None:
    """Do all this, each step in one of the two. Who is refused stops for good, and has committed nothing by then."""
    refused: set[int] = set()

    def in_one(which: int, act: Callable[[World], None]) -> None:
        if which in refused:
            return
        try:
            act(worlds[which])
        except ForeignChainError:
            refused.add(which)
            assert not any(CommitNote.from_metadata(one.metadata) for one in worlds[which].committed.values())
            for member in (*worlds[which].members, *worlds[which].zombies):
                worlds[which].crash(member)

    def start(world: World) -> None:
        world.join()
        world.rebalance(0, is_eager=True)

    for which in range(2):
        in_one(which, start)
    for name, who, how in schedule:
        in_one(who % 2, lambda world, name=name, who=who, how=how: STEPS[name](world, who // 2, how))
    for which in range(2):
        in_one(which, World.finish)
    for world in worlds:
        for key in world.logs:
            world.check(key)
            check_chain(commit.link for commit in world.table.commits.get(key, []))


@given(st.sampled_from(OTHERS), SCHEDULE)
@settings(
    max_examples=SCHEDULES * SOAK // 4,
    deadline=None,
    derandomize=SOAK == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_fault_53_second_group_or_cluster_on_a_chain_is_refused(other: Origin, schedule: list[Step]) -> None:
    note(f"{schedule}")
    live_beside(rival_worlds(other), [step for step in schedule if step[0] not in ("restore", "be away")])


@pytest.mark.parametrize("other", OTHERS, ids=["group", "topic", "cluster"])
def test_fault_53_foreign_first_link_taken_for_ours_is_found(other: Origin) -> None:
    def does(schedule: list[Step]) -> bool:
        try:
            live_beside(rival_worlds(other, by_adopting), [step for step in schedule if step[0] != "restore"])
        except CommittedUnlandedError:
            return True
        except (AssertionError, ChainError):
            return False
        return False

    assert find(SCHEDULE, does, settings=FINDING)


class ByOffset(Table):
    """The bug of the offset as the version of a write: whatever ends beyond the last one is let in."""

    def may_append(self, link: Link, waited: int) -> bool:
        commits = self.commits.get(link.key)
        return not commits or link.to_offset > commits[-1].link.to_offset


class Unlooked(IcebergTable):
    """Nobody looks whether the link before is there: the number may have been taken, and forgotten."""

    def is_next(self, link: Link) -> bool:
        return True


class Forgetful(IcebergTable):
    """A table that forgets a chain with its links: the chain then looks as if it did not exist yet."""

    def head(self, key: ChainKey) -> Link | None:
        remembered = self._remembered(key)
        return remembered[-1].link if remembered else None

    def is_next(self, link: Link) -> bool:
        return ExpiringTable.is_next(self, link)


def _does(damage: type[AssertionError], world: Callable[[], World]) -> Callable[[list[Step]], bool]:
    """Return a check whether a schedule ends with this damage, before a chain's own checks notice another."""

    def check(schedule: list[Step]) -> bool:
        try:
            live(world(), schedule)
        except damage:
            return True
        except (AssertionError, ChainError):
            return False
        return False

    return check


@pytest.mark.parametrize(
    ("world", "damage"),
    [
        pytest.param(lambda: World(ByOffset()), LandedTwiceError, id="offset as version"),
        pytest.param(lambda: World(find=by_response), NotLandedError, id="success believed, lost"),
        pytest.param(lambda: World(find=by_response), LandedTwiceError, id="success believed, repeated"),
        pytest.param(lambda: World(find=by_adopting), CommittedUnlandedError, id="first link adopted unseen"),
        pytest.param(lambda: World(begin=without_begin), CommittedUnlandedError, id="begin not compared at the start"),
        pytest.param(lambda: World(end_of=by_count), LandedTwiceError, id="records counted"),
        pytest.param(lambda: World(Unlooked()), LandedTwiceError, id="published without a look"),
        pytest.param(lambda: World(Forgetful()), LandedTwiceError, id="forgotten taken for not begun"),
        pytest.param(lambda: World(DeltaTable(), restates=False), ForgottenError, id="idle heads not stated anew"),
    ],
)
def test_known_bug_is_found_by_the_damage_that_it_does(
    world: Callable[[], World], damage: type[AssertionError]
) -> None:
    try:
        found = find(
            SCHEDULE,
            _does(damage, world),
            settings=FINDING,
        )
    except NoSuchExample:
        pytest.fail("no schedule of so many finds it")
    assert found
