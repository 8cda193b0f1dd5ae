"""A simulation of a group under churn in virtual time: members start, leave, crash and freeze; coordinators move.

`run(seed, hours)` runs one schedule and checks it. The same seed gives the same schedule, event by event. The checks:

- the offsets of a claim start at its start offset and rise without a gap;
- every message before a committed offset was processed by some member: no message is skipped;
- no two members own one partition in one generation;
- after the faults all living members are in one Stable group, which owns each partition once, and every message that
  was ever produced has been processed and committed.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from sarameya import TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.refusal import Refused
from sarameya.testing import virtual_wall_clock
from tests.churn.faults import FAULTS
from tests.churn.members import GROUP, TOPIC, Crew

HOURS = 0.5
"""The length of a schedule, in virtual hours."""
BROKERS = 3
PARTITIONS = 6
FAULT_SECONDS = 20.0
"""The mean time between two faults."""
SETTLE_SECONDS = 600.0
"""The longest time that a group may need to become stable and to catch up after the last fault."""
ASSIGNORS = [("range",), ("cooperative-sticky",), ("sticky", "range"), ("cooperative-sticky",), ("roundrobin",)]


class ChurnError(AssertionError):
    """An invariant does not hold; the message has the seed and the virtual time."""


@attrs.define(slots=True)
class Report:
    """Figures of one schedule."""

    seed: int
    hours: float
    produced: int = 0
    processed: int = 0
    generations: int = 0
    faults: Counter[str] = attrs.field(factory=Counter)
    digest: str = ""
    """Digest of all events of all members, in order, with their times. The same seed gives the same digest."""

    @property
    def repeated(self) -> int:
        """Messages processed more than once, as at-least-once allows after a crash."""
        return self.processed - self.produced

    def __str__(self) -> str:
        faults = " ".join(f"{name}:{count}" for name, count in sorted(self.faults.items()))
        return (
            f"seed {self.seed}: {self.hours:g} h, {self.produced} messages, {self.repeated} repeated, "
            f"{self.generations} generations, {faults}, digest {self.digest}"
        )


class World:
    """The world of one schedule: the cluster, the members, and the produced and processed messages."""

    def __init__(self, seed: int, hours: float) -> None:
        self.rng = random.Random(seed)
        self.report = Report(seed, hours)
        self.cluster = EmbeddedCluster(
            topics={TOPIC: PARTITIONS},
            brokers=BROKERS,
            in_memory=True,
            wall_clock=virtual_wall_clock,
            seed=self.rng.getrandbits(32),
        )
        self.partitions = PARTITIONS
        self.down: set[int] = set()
        self._digest = hashlib.sha256()
        self._processed: dict[TopicPartition, set[int]] = {}
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        strategies = ASSIGNORS[seed % len(ASSIGNORS)]
        self.crew = Crew(self, strategies)

    async def run(self) -> Report:
        async with self.cluster, trio.open_nursery() as nursery:
            self.crew.nursery = nursery
            for _ in range(3):
                self.crew.start()
            with trio.move_on_after(self.report.hours * 3600):
                async with trio.open_nursery() as churn:
                    churn.start_soon(self._produce)
                    churn.start_soon(self._cause_faults)
                    churn.start_soon(self._watch_commits)
            await self._settle()
            nursery.cancel_scope.cancel()
        self.report.digest = self._digest.hexdigest()[:16]
        return self.report

    async def _produce(self) -> None:
        while True:
            partition = self.rng.randrange(self.partitions)
            for _ in range(self.rng.randrange(1, 4)):
                self.cluster.produce(TOPIC, partition, b"%d" % self.report.produced)
                self.report.produced += 1
            await trio.sleep(self.rng.expovariate(1 / 3))

    async def _cause_faults(self) -> None:
        """Start faults at random times. Several may be active at a time, since some last for a while."""
        names = sorted(FAULTS)
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(self.rng.expovariate(1 / FAULT_SECONDS))
                nursery.start_soon(self._do_fault, self.rng.choice(names))

    async def _do_fault(self, name: str) -> None:
        self.note(f"fault {name}")
        if await FAULTS[name](self):
            self.report.faults[name] += 1

    async def _watch_commits(self) -> None:
        """Check that committed offsets never move back."""
        before: dict[TopicPartition, int] = {}
        while True:
            await trio.sleep(10)
            now = self.committed()
            if now is None:
                continue
            for partition, offset in before.items():
                if now.get(partition, -1) < offset:
                    raise self.error(f"{partition}: {offset} was committed, now it is {now.get(partition)}")
            before = now

    async def _settle(self) -> None:
        """End all faults, and check that the group becomes stable and catches up."""
        self.cluster.clear_faults()
        for member in self.crew.alive:
            member.network.alive = True
        for node_id in sorted(self.down):
            await self.cluster.start_broker(node_id)
        self.down.clear()
        if not self.crew.alive:
            self.crew.start()
        with trio.move_on_after(SETTLE_SECONDS) as scope:
            while self.why_unsettled():
                await trio.sleep(1)
        if scope.cancelled_caught:
            raise self.error(f"not settled after {SETTLE_SECONDS:g} s: {self.why_unsettled()}")
        for partition in self.all_partitions():
            missing = set(range(self.end(partition))) - self._processed.get(partition, set())
            if missing:
                raise self.error(f"{partition}: never processed: {sorted(missing)[:5]}")

    def why_unsettled(self) -> str:
        """Return why the group is not stable or has not caught up; empty if it is and has."""
        group = self.cluster.describe_group(GROUP)
        if group.state is not GroupState.STABLE:
            return f"the group is {group.state.value if group.state else group.error.name}"
        if len(group.members) != len(self.crew.alive):
            return f"the group has {len(group.members)} members, {len(self.crew.alive)} are alive"
        owned = Counter(tp for member in self.crew.alive for tp in member.owned)
        if owned != Counter(self.all_partitions()):
            return f"owned: {dict(owned)}"
        commits = self.committed() or {}
        for partition in self.all_partitions():
            if commits.get(partition, 0) != self.end(partition):
                return f"{partition}: committed {commits.get(partition, 0)} of {self.end(partition)}"
        return ""

    def committed(self) -> dict[TopicPartition, int] | None:
        """Return the group's committed offsets; None while its coordinator cannot return them."""
        try:
            return {partition: commit.offset for partition, commit in self.cluster.committed(GROUP).items()}
        except Refused:
            return None

    # -- for faults and members -----------------------------------------------------------------------

    def all_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, number) for number in range(self.partitions)]

    def end(self, partition: TopicPartition) -> int:
        return self.cluster.log(*partition).end_offset

    def processed(self, partition: TopicPartition, offset: int) -> None:
        self.report.processed += 1
        self._processed.setdefault(partition, set()).add(offset)

    def check_commit(self, partition: TopicPartition, offset: int) -> None:
        """Check that everything before a committed offset was processed."""
        done = self._processed.get(partition, set())
        if missing := set(range(offset)) - done:
            raise self.error(f"{partition}: {offset} was committed, never processed: {sorted(missing)[:5]}")

    def check_owner(self, partition: TopicPartition, generation: int, owner: str) -> None:
        """Check that a generation assigns a partition to one member only."""
        self.report.generations = max(self.report.generations, generation)
        if (other := self._owners.setdefault((generation, partition), owner)) != owner:
            raise self.error(f"{partition} is assigned to both {other} and {owner} in generation {generation}")

    def error(self, problem: str) -> ChurnError:
        return ChurnError(f"seed {self.report.seed} at {trio.current_time():.3f} s: {problem}")

    def note(self, line: str) -> None:
        self._digest.update(f"{trio.current_time():.6f} {line}\n".encode())


def run(seed: int, hours: float) -> Report:
    """Run one schedule, and check it.

    Raises:
        ChurnError: An invariant does not hold.
        Exception: Any exception that ends a member.
    """
    with _deterministic(seed):
        return trio.run(World(seed, hours).run, clock=MockClock(autojump_threshold=0))


@contextmanager
def _deterministic(seed: int) -> Iterator[None]:
    """Make trio's order of ready tasks depend on the seed, by trio's own switch for tests: it is random on purpose."""
    scheduler: Any = trio._core._run
    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    scheduler._r.seed(seed)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = before[0]
        scheduler._r.setstate(before[1])
