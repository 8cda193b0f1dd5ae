"""The job of the demo: produce flights to the embedded broker while the service lands them, and follow its progress."""

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
STALL_TIMEOUT = 120.0
"""Seconds without progress after which the job has failed."""
POLL_INTERVAL = 0.2
"""Seconds between two reads of the group's state."""


@attrs.define
class Job:
    """Flights that are produced and land.

    Attributes:
        cluster: The broker.
        total: Number of flights.
        display: Shows the progress.
        produced: Number of flights that have been produced.
    """

    cluster: EmbeddedCluster
    total: int
    display: Display
    produced: int = 0

    @property
    def landed(self) -> int:
        """Number of landed rows: those that the group has committed, which it does after they have landed."""
        return sum(committed.offset for committed in self.cluster.committed(GROUP).values())

    async def produce(self, flights: Iterator[Flight]) -> None:
        """Append the flights to their partitions, in chunks."""
        chunks: list[list[Flight]] = [[] for _ in range(PARTITIONS)]
        for flight in flights:
            chunk = chunks[flight.partition]
            chunk.append(flight)
            if len(chunk) == CHUNK:
                await self._send(chunk)
        for chunk in chunks:
            if chunk:
                await self._send(chunk)

    async def _send(self, chunk: list[Flight]) -> None:
        records = ((flight.key, flight.value) for flight in chunk)
        self.cluster.produce_many(TOPIC, chunk[0].partition, records)
        self.produced += len(chunk)
        chunk.clear()
        await trio.lowlevel.checkpoint()  # the broker runs on this event loop, too

    async def show(self) -> None:
        """Show the progress until cancelled, and once more at the end."""
        rate = Rate()
        try:
            while True:
                landed = self.landed
                speed = rate.update(landed, trio.current_time())
                self.display.update(landed, f"{self.produced:,} produced, {speed:,.0f} rows/s")
                await trio.sleep(POLL_INTERVAL)
        finally:
            self.display.update(self.landed, f"{self.produced:,} produced")

    async def wait_for_members(self, count: int) -> None:
        """Wait until the group has this many members, and no rebalance is under way."""
        self.display.print_line(f"waiting for {count} members (each starts its own Spark)")
        await _wait_until(lambda: self._members() == count)

    async def fail_if_stalled(self) -> None:
        """Watch the progress until cancelled.

        Raises:
            DemoError: There was no progress for `STALL_TIMEOUT`.
        """
        while True:
            with trio.move_on_after(STALL_TIMEOUT) as timeout:
                await self._progress()
            if timeout.cancelled_caught:
                landed, produced, members = self._state()
                raise DemoError(
                    f"no progress for {STALL_TIMEOUT:.0f} s: "
                    f"{landed:,} rows landed, {produced:,} produced, {members} members in the group"
                )

    async def _progress(self) -> None:
        before = self._state()
        await _wait_until(lambda: self._state() != before)

    def _state(self) -> tuple[int, int, int]:
        return self.landed, self.produced, self._members()

    async def wait_for_first_rows(self) -> None:
        await _wait_until(lambda: self.landed > 0)

    async def wait_for_all_rows(self) -> None:
        await _wait_until(lambda: self.landed >= self.total)

    async def kill_one_member(self, service: Service) -> None:
        """Kill one worker (SIGKILL) once three quarters are produced: some of them have not landed yet."""
        await _wait_until(lambda: self.produced >= self.total * 3 // 4)
        pid = service.workers[1]
        os.kill(pid, signal.SIGKILL)
        self.display.print_line(f"killed worker 1 (pid {pid}): {self.landed:,} rows of {self.produced:,} had landed")

    async def wait_for_takeover(self) -> None:
        await _wait_until(lambda: self._members() == 1)
        generation = self.cluster.describe_group(GROUP).generation
        self.display.print_line(f"the other member has all {PARTITIONS} partitions now (generation {generation})")

    def _members(self) -> int:
        """Return the number of the group's members; 0 during a rebalance."""
        group = self.cluster.describe_group(GROUP)
        return len(group.members) if group.state is GroupState.STABLE else 0


async def _wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  the group has no event for this
        await trio.sleep(POLL_INTERVAL)


class Rate:
    """Rows a second over the last few seconds."""

    def __init__(self, seconds: float = 5.0) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, rows: int, now: float) -> float:
        """Add a sample, the number of rows so far. Return the rate."""
        self._samples.append((now, rows))
        while self._samples[0][0] < now - self._seconds:
            self._samples.popleft()
        then, before = self._samples[0]
        return (rows - before) / (now - then) if now > then else 0.0
