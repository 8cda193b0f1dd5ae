"""Chains under faults: each record is landed exactly once.

The faults are zombies, rebalances, crashes, late and lost writes, lost responses, logs with gaps, restored tables, and
tables that forget. The same schedules must find known bugs of such sinks, by the records that these lose or repeat.

The ordinary run is always the same; `SARAMEYA_SOAK=40` runs forty times as many schedules, new ones.
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
    def step(world: World, which: int, amount: int) -> None:
        if claims := list(world.claims()):
            act(claims[-1 - which % len(claims)], amount)

    return step


def _member(act: Callable[[Member, int], None]) -> Act:
    def step(world: World, which: int, amount: int) -> None:
        if members := [*world.zombies, *world.members]:
            act(members[-1 - which % len(members)], amount)

    return step


def _log(act: Callable[[World, ChainKey, int], None]) -> Act:
    return lambda world, which, amount: act(world, [*world.logs][which % len(world.logs)], amount)


def _land(claim: Claim, amount: int) -> None:
    """Read, propose, write, settle and commit, without a step between."""
    claim.read(amount)
    claim.propose(amount)
    world = claim.world
    for place, write in enumerate(world.pending):
        if write.claim is claim and claim.chain.state is AttemptState.TRYING:
            world.arrive(place, goes_through=True, is_answered=True)
            break
    claim.settle()
    claim.member.commit()


def _rebalance(world: World, which: int, amount: int) -> None:
    """Let a member join, be fenced, crash or neither, and rebalance with an eager or a cooperative assignor."""
    match amount % 4:
        case 0:
            world.join()
        case 1:
            world.fence(which)
        case 2 if world.members:
            world.crash(world.members[which % len(world.members)])
    world.rebalance(which, is_eager=amount % 2 == 0)


def _lose(world: World, which: int, _: int) -> None:
    if world.pending:
        del world.pending[which % len(world.pending)]


def _restore(world: World, which: int, version: int) -> None:
    count = sum(map(len, world.table.commits.values()))
    world.restore(version % (count + 1), rewinds=bool(which % 4))


def _long_absence(world: World, which: int, amount: int) -> None:
    """Crash all members for a long time; the group's commits may expire. Zombies remain."""
    for member in list(world.members):
        world.crash(member)
    if amount % 2:
        world.committed.clear()
    _pass(world, which, 2 * amount)


def _pass(world: World, which: int, amount: int) -> None:
    """Let time pass; the table may forget commits then."""
    world.now += 3 * amount
    if which % 2:
        world.table.forget(world.now)


STEPS: dict[str, Act] = {
    "write": _log(lambda world, key, amount: world.logs[key].write(amount + 1, are_visible=True)),
    "hide": _log(lambda world, key, amount: world.logs[key].write(amount + 1, are_visible=False)),
    "compact": _log(lambda world, key, amount: world.logs[key].compact(amount)),
    "rebalance": _rebalance,
    "crash": _member(lambda member, _: member.world.crash(member)),
    "land": _claim(_land),
    "read": _claim(Claim.read),
    "propose": _claim(Claim.propose),
    "flush": _member(Member.flush),
    "restate": _claim(lambda claim, _: claim.restate()),
    "arrive": lambda world, which, amount: world.arrive(which, goes_through=amount % 3 > 0, is_answered=amount % 2 > 0),
    "lose": _lose,
    "settle": _claim(lambda claim, _: claim.settle()),
    "commit": _member(lambda member, _: member.commit()),
    "pass": _pass,
    "long absence": _long_absence,
    "restore": _restore,
    "reset": _log(World.reset),
}
OFTEN = ("write", "read", "propose", "arrive", "settle", "land")
NAMES = [*STEPS, *OFTEN, *OFTEN, "rebalance", "pass"]
LENGTH = (15, 60)
"""The least and the greatest number of steps of a schedule."""


def _steps(data: bytes) -> list[Step]:
    """Decode steps of three bytes each: Hypothesis draws bytes much faster than as many numbers."""
    numbers = iter(data)
    return [
        (NAMES[name % len(NAMES)], which % 16, amount % 10)
        for name, which, amount in zip(numbers, numbers, numbers, strict=False)
    ]


FINDING = settings(max_examples=SCHEDULES, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
Find = Callable[[Claim, list[Link]], Outcome]
SCHEDULE = st.binary(min_size=3 * LENGTH[0], max_size=3 * LENGTH[1]).map(_steps)
PARTITIONS = st.integers(1, 3)


def run_schedule(world: World, schedule: list[Step]) -> None:
    """Run a schedule, and land the rest at its end. Raises AssertionError if a record is lost or repeated.

    A new owner fails if the table was restored to a version without links that the group knows, or if the table has
    forgotten the end of a chain that was not restated for longer than its retention. Both end the run.
    """
    try:
        world.join()
        world.rebalance(0, is_eager=True)
        for name, which, amount in schedule:
            STEPS[name](world, which, amount)
        world.finish()
    except RewoundTableError:
        assert world.is_rewound, "the table was not restored"
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
def test_each_record_is_landed_exactly_once(table: Callable[[], Table], partitions: int, schedule: list[Step]) -> None:
    note(f"{schedule}")
    run_schedule(World(table(), partitions), schedule)


OTHER_ORIGINS = (
    Origin(group="audit", topic_id=ORIGIN.topic_id),
    Origin(group=ORIGIN.group, topic_id="f" * 32),
    Origin(group=ORIGIN.group, cluster_id="other"),
)
"""Another group; the topic of another cluster; another cluster without topic ids."""


def rival_worlds(other: Origin, find: Find = by_reading_back) -> tuple[World, World]:
    """Return two services that land the same topic with one sink's name in one new table."""
    own = attrs.evolve(ORIGIN, cluster_id="ours", topic_id=other.topic_id and ORIGIN.topic_id)
    table, attempts = Table(), count(1)
    first, second = (World(table, origin=origin, find=find, attempts=attempts) for origin in (own, other))
    return first, second


def run_rivals(worlds: tuple[World, World], schedule: list[Step]) -> None:
    """Run each step in one of the two services. A refused service stops, and must not have committed."""
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
    for name, which, amount in schedule:
        in_one(which % 2, lambda world, name=name, which=which, amount=amount: STEPS[name](world, which // 2, amount))
    for which in range(2):
        in_one(which, World.finish)
    for world in worlds:
        for key in world.logs:
            world.check(key)
            check_chain(commit.link for commit in world.table.commits.get(key, []))


@given(st.sampled_from(OTHER_ORIGINS), SCHEDULE)
@settings(
    max_examples=SCHEDULES * SOAK // 4,
    deadline=None,
    derandomize=SOAK == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_fault_53_second_group_or_cluster_on_a_chain_is_refused(other: Origin, schedule: list[Step]) -> None:
    note(f"{schedule}")
    run_rivals(rival_worlds(other), [step for step in schedule if step[0] not in ("restore", "long absence")])


@pytest.mark.parametrize("other", OTHER_ORIGINS, ids=["group", "topic", "cluster"])
def test_fault_53_adopted_foreign_first_link_is_found(other: Origin) -> None:
    def commits_unlanded(schedule: list[Step]) -> bool:
        try:
            run_rivals(rival_worlds(other, by_adopting), [step for step in schedule if step[0] != "restore"])
        except CommittedUnlandedError:
            return True
        except (AssertionError, ChainError):
            return False
        return False

    assert find(SCHEDULE, commits_unlanded, settings=FINDING)


class ByOffset(Table):
    """The bug of offsets as versions: a table that accepts each link that ends after the last one."""

    def may_append(self, link: Link, waited: int) -> bool:
        commits = self.commits.get(link.key)
        return not commits or link.to_offset > commits[-1].link.to_offset


class Unchecked(IcebergTable):
    """The bug of a write that does not check the previous link: its number may be taken and forgotten."""

    def is_next(self, link: Link) -> bool:
        return True


class Forgetful(IcebergTable):
    """A table that forgets a chain with its links: the chain then looks as if it did not exist yet."""

    def head(self, key: ChainKey) -> Link | None:
        remembered = self._remembered(key)
        return remembered[-1].link if remembered else None

    def is_next(self, link: Link) -> bool:
        return ExpiringTable.is_next(self, link)


def _causes(damage: type[AssertionError], world: Callable[[], World]) -> Callable[[list[Step]], bool]:
    """Return a check that a schedule causes this damage, before a chain's own checks raise."""

    def check(schedule: list[Step]) -> bool:
        try:
            run_schedule(world(), schedule)
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
        pytest.param(lambda: World(find=by_response), NotLandedError, id="response trusted, records lost"),
        pytest.param(lambda: World(find=by_response), LandedTwiceError, id="response trusted, records repeated"),
        pytest.param(lambda: World(find=by_adopting), CommittedUnlandedError, id="first link adopted unchecked"),
        pytest.param(
            lambda: World(begin=without_begin), CommittedUnlandedError, id="chain's begin not compared at the start"
        ),
        pytest.param(lambda: World(end_of=by_count), LandedTwiceError, id="records counted instead of offsets"),
        pytest.param(lambda: World(Unchecked()), LandedTwiceError, id="previous link not checked"),
        pytest.param(lambda: World(Forgetful()), LandedTwiceError, id="forgotten chain taken for a new one"),
        pytest.param(lambda: World(DeltaTable(), restates=False), ForgottenError, id="idle heads not restated"),
    ],
)
def test_known_bug_is_found_by_its_damage(world: Callable[[], World], damage: type[AssertionError]) -> None:
    try:
        found = find(
            SCHEDULE,
            _causes(damage, world),
            settings=FINDING,
        )
    except NoSuchExample:
        pytest.fail("no schedule finds the bug")
    assert found
