"""Assignors divide 10,000 partitions among 2,000 members within 2 s of CPU time, mostly within a tenth of that."""

import gc
import random
import time
from collections.abc import Callable
from functools import cache

import attrs
import pytest

from sarameya.protocol.assignors import ASSIGNORS, Subscription, TopicLayout
from tests.protocol.assignors.kit import next_round

SECONDS = 2.0
YARDSTICK = 0.15
"""Seconds that the loop in `slowness` takes on a quiet core of 2.4 GHz."""
MEMBERS = 2_000
FIVE = {"a": 3_000, "b": 2_500, "c": 2_000, "d": 1_500, "e": 1_000}
MANY = {f"topic-{number:03}": 1 + 2 * (number % 20) for number in range(500)}
RACKS = ("r1", "r2", "r3")
MANY_RACKS = tuple(f"r{number}" for number in range(1, 11))


@attrs.frozen
class Kind:
    """A kind of group: its topics, and the subscription of the member with a given number."""

    counts: dict = attrs.field(hash=False)
    subscribed: Callable = lambda names, number: names
    racks: tuple = ("",)
    replicas: int = 2

    def topics(self):
        assert sum(self.counts.values()) == 10_000
        dice = random.Random(1)
        return {topic: TopicLayout(count, self.replica_racks(count, dice)) for topic, count in self.counts.items()}

    def replica_racks(self, count, dice):
        known = count if len(self.racks) > 1 else 0
        return {number: frozenset(dice.sample(self.racks, self.replicas)) for number in range(known)}

    def members(self, numbers):
        names = tuple(self.counts)
        return {
            f"member-{n:05}": Subscription(self.subscribed(names, n), rack_id=self.racks[n % len(self.racks)])
            for n in numbers
        }


KINDS = {
    "alike": Kind(FIVE),
    "alike, in racks": Kind(FIVE, racks=RACKS),
    "some topics each": Kind(MANY, lambda names, n: tuple(random.Random(n).sample(names, 1 + n % 40))),
    "one topic more each": Kind(MANY, lambda names, n: names[: 1 + n % len(names)]),
    "one topic more each, in racks": Kind(MANY, lambda names, n: names[: 1 + n % len(names)], RACKS, 1),
    "one topic more each, in many racks": Kind(MANY, lambda names, n: names[: 1 + n % len(names)], MANY_RACKS, 1),
    "two neighbours each": Kind(MANY, lambda names, n: names[n // 4 : n // 4 + 2]),
}
CHANGES = {
    "nothing changed": range(MEMBERS),
    "one left": range(1, MEMBERS),
    "a tenth left": range(MEMBERS // 10, MEMBERS),
    "a tenth joined": range(MEMBERS + MEMBERS // 10),
}

HARDEST = "one topic more each, in many racks"


def _parameter(kind):
    return pytest.param(kind, marks=() if kind == HARDEST else pytest.mark.exhaustive)


every_kind = pytest.mark.parametrize("kind", [_parameter(kind) for kind in KINDS])
sticky = pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])


def timed(name, members, topics):
    """Return the result. Fail if all of three runs take more than SECONDS, scaled by the machine's slowness."""
    for tries_left in (2, 1, 0):
        result, seconds = measured(name, members, topics)
        if seconds < SECONDS or seconds / slowness() < SECONDS:
            break
        assert tries_left, f"{seconds:.1f} s, while the machine is {slowness():.1f} times slower than a quiet one"
    return result


def slowness():
    """Return the slowdown of plain Python against a quiet core of 2.4 GHz; never less than 1."""
    start = time.process_time()
    counts = {}
    for number in range(1_000_000):
        counts[number % 1_000] = counts.get(number % 1_000, 0) + number
    return max(1.0, (time.process_time() - start) / YARDSTICK)


def measured(name, members, topics):
    """Return the result and the seconds of CPU time."""
    assignor = ASSIGNORS[name]()
    gc.collect()
    gc.freeze()  # the collector then skips the objects of other tests
    try:
        start = time.process_time()
        result = assignor.assign(members, topics)
        return result, time.process_time() - start
    finally:
        gc.unfreeze()


@cache
def first(name, kind):
    return ASSIGNORS[name]().assign(KINDS[kind].members(range(MEMBERS)), KINDS[kind].topics())


@every_kind
@pytest.mark.parametrize("name", ASSIGNORS)
def test_first_assignment_of_2000_members_and_10000_partitions(name, kind):
    timed(name, KINDS[kind].members(range(MEMBERS)), KINDS[kind].topics())


@every_kind
@pytest.mark.parametrize("change", CHANGES)
@sticky
def test_2000_members_and_10000_partitions_after_a_change(name, change, kind):
    members = KINDS[kind].members(CHANGES[change])
    timed(name, next_round(name, members, first(name, kind)), KINDS[kind].topics())


@sticky
def test_2000_members_share_the_partitions_of_one(name):
    single_owner = f"member-{MEMBERS:05}"
    members = KINDS["one topic more each"].members(range(MEMBERS)) | {single_owner: Subscription(tuple(MANY))}
    before = {single_owner: {topic: tuple(range(count)) for topic, count in MANY.items()}}
    timed(name, next_round(name, members, before), KINDS["one topic more each"].topics())


@cache
def random_assignment(kind):
    members = KINDS[kind].members(range(MEMBERS))
    takers = {topic: [] for topic in KINDS[kind].counts}
    for member, subscription in members.items():
        for topic in subscription.topics:
            takers[topic].append(member)
    dice = random.Random(2)
    earlier = {member: {} for member in members}
    for topic, count in KINDS[kind].counts.items():
        for number in range(count if takers[topic] else 0):
            rows = earlier[dice.choice(takers[topic])]
            rows[topic] = (*rows.get(topic, ()), number)
    return earlier


@every_kind
@sticky
def test_2000_members_after_a_random_assignment(name, kind):
    timed(name, next_round(name, KINDS[kind].members(range(MEMBERS)), random_assignment(kind)), KINDS[kind].topics())
