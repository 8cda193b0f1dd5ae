"""The job: produce flights into the embedded broker while the service lands them, and see it through to the end."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator

import attrs
import trio

from examples.flights.data import PARTITIONS, Flight
from examples.flights.errors import DemoError
from examples.flights.service import Service
from sarameya.embedded import EmbeddedCluster, GroupState
from sarameya.service import Display

TOPIC = "flights"
GROUP = "flights-landing"

CHUNK = 500
"""Flights of one partition that are produced at once."""
PATIENCE = 120.0
"""Seconds without any progress after which the job has failed."""
GLANCE = 0.2
"""Seconds between two looks at how far the group is."""


@attrs.define
class Job:
    """Flights on their way: how many there are in all, and how many have been produced."""

    cluster: EmbeddedCluster
    total: int
    shown: Display
    produced: int = 0

    @property
    def landed(self) -> int:
        """The rows that the group has committed, which it does only once they have landed."""
        return sum(committed.offset for committed in self.cluster.committed(GROUP).values())

    async def produce(self, flights: Iterator[Flight]) -> None:
        """Append the flights to their partitions, a chunk at a time."""
        waiting: list[list[Flight]] = [[] for _ in range(PARTITIONS)]
        for flight in flights:
            chunk = waiting[flight.partition]
            chunk.append(flight)
            if len(chunk) == CHUNK:
                await self._send(chunk)
        for chunk in waiting:
            if chunk:
                await self._send(chunk)

    async def _send(self, chunk: list[Flight]) -> None:
        records = ((flight.key, flight.value) for flight in chunk)
        self.cluster.produce_many(TOPIC, chunk[0].partition, records)
        self.produced += len(chunk)
        chunk.clear()
        await trio.lowlevel.checkpoint()  # the broker answers on this loop too

    async def show(self) -> None:
        """Show the progress until cancelled, and once more then."""
        rate = Rate()
        try:
            while True:
                landed = self.landed
                speed = rate.after(landed, trio.current_time())
                self.shown.update(landed, f"{self.produced:,} produced, {speed:,.0f} rows/s")
                await trio.sleep(GLANCE)
        finally:
            self.shown.update(self.landed, f"{self.produced:,} produced")

    async def has_members(self, count: int) -> None:
        """Wait until the group has so many members and no rebalance is under way."""
        self.shown.say(f"waiting for {count} members (each starts a Spark of its own)")
        await _until(lambda: self._members() == count)

    async def must_move(self) -> None:
        """Runs until cancelled. Raises DemoError when nothing moves any more."""
        while True:
            with trio.move_on_after(PATIENCE) as patience:
                await self._moved()
            if patience.cancelled_caught:
                landed, produced, members = self._state()
                raise DemoError(
                    f"nothing has moved for {PATIENCE:.0f} s: "
                    f"{landed:,} rows landed, {produced:,} produced, {members} members in the group"
                )

    async def _moved(self) -> None:
        before = self._state()
        await _until(lambda: self._state() != before)

    def _state(self) -> tuple[int, int, int]:
        return self.landed, self.produced, self._members()

    async def some_landed(self) -> None:
        await _until(lambda: self.landed > 0)

    async def all_landed(self) -> None:
        await _until(lambda: self.landed >= self.total)

    async def kill_one_member(self, service: Service) -> None:
        """SIGKILL for one worker while it is busy: with three quarters produced, some of it has not landed yet."""
        await _until(lambda: self.produced >= self.total * 3 // 4)
        pid = service.workers[1]
        os.kill(pid, signal.SIGKILL)
        self.shown.say(f"killed worker 1 (pid {pid}): {self.landed:,} rows of {self.produced:,} had landed")

    async def other_member_took_over(self) -> None:
        await _until(lambda: self._members() == 1)
        generation = self.cluster.describe_group(GROUP).generation
        self.shown.say(f"the other member has all {PARTITIONS} partitions now (generation {generation})")

    def _members(self) -> int:
        """How many members the group has; 0 while it is rebalancing."""
        group = self.cluster.describe_group(GROUP)
        return len(group.members) if group.state is GroupState.STABLE else 0


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  the group is only looked at, from outside
        await trio.sleep(GLANCE)


class Rate:
    """Rows a second over the last few seconds."""

    def __init__(self, span: float = 5.0) -> None:
        self._span = span
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, rows: int, now: float) -> float:
        self._seen.append((now, rows))
        while self._seen[0][0] < now - self._span:
            self._seen.popleft()
        then, before = self._seen[0]
        return (rows - before) / (now - then) if now > then else 0.0
