"""A group of ours at work on what a trickle produces, under watch: what was read, when, in which membership.

For tests that do something to the brokers meanwhile. What was acknowledged is told by the trickle, so that the broker's
share of a wait (until it acknowledges) and ours (until it is read then) are known apart.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import attrs
import trio

from sarameya import Claim, Config, ConsumerGroup, Event, Message, Session
from tests.group.kit import Recorder
from tests.integration.peers.stage import Trickle
from tests.integration.real_kafka import RealKafka

SETTLE_SECONDS = 20.0
"""What a group may take to agree, and to read what there is while nothing happens."""


@attrs.define
class Reading:
    """The members, and what they have come to."""

    partitions: int
    trickle: Trickle
    members: list[Recorder] = attrs.field(factory=list)
    events: list[Event] = attrs.field(factory=list)
    read_at: dict[tuple[int, int], float] = attrs.field(factory=dict)
    """(partition, offset) -> seconds since 1970."""

    async def note(self, _: Session, __: Claim, message: Message) -> None:
        self.read_at[message.partition, message.offset] = time.time()

    def offsets(self) -> dict[int, list[int]]:
        """Each partition's offsets, as they were read."""
        messages = [message for member in self.members for message in member.messages]
        return {number: [m.offset for m in messages if m.partition == number] for number in range(self.partitions)}

    def memberships(self) -> list[tuple[str, int, int]]:
        """Return member id, generation and number of the session of each member."""
        return [(m.sessions[-1].member_id, m.sessions[-1].generation, len(m.sessions)) for m in self.members]

    def is_dealt(self) -> bool:
        claims = [member.sessions[-1].claims for member in self.members if member.sessions]
        dealt = [len(numbers) for claimed in claims for numbers in claimed.values()]
        return dealt == [self.partitions // len(self.members)] * len(self.members)

    async def has_read_on(self, seconds: float) -> None:
        """Wait until something acknowledged from now on has been read of each partition."""
        seen = len(self.trickle.delivered)
        await self.until(
            lambda: len({n for n, _ in self.trickle.delivered_after(seen) & self.read_at.keys()}) == self.partitions,
            seconds,
        )

    async def slowest_since(self, moment: float, seconds: float, partitions: Collection[int] | None = None) -> float:
        """The longest time from the acknowledgement of a message to its being read, of all acknowledged until now.

        Waits at most so many seconds for what has not been read.
        """
        chosen = range(self.partitions) if partitions is None else partitions
        delivered = {p: at for p, at in self.trickle.delivered.items() if at > moment and p[0] in chosen}
        await self.until(lambda: delivered.keys() <= self.read_at.keys(), seconds)
        return max(self.read_at[place] - at for place, at in delivered.items())

    def silences(self, since: float, until: float) -> dict[int, float]:
        """Return the longest time between two reads of each partition, between two moments."""
        times: dict[int, list[float]] = {number: [] for number in range(self.partitions)}
        for (number, _), at in self.read_at.items():
            if since < at < until:
                times[number].append(at)
        return {
            number: max(late - early for early, late in pairwise([since, *sorted(at), until]))
            for number, at in times.items()
        }

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait for something; raises AssertionError, with what was delivered and read, when it takes too long."""
        with trio.move_on_after(seconds):
            while not condition():
                await trio.sleep(0.02)
            return
        now, shown = time.time(), [f"not after {seconds:g} s"]
        for partition in range(self.partitions):
            delivered = [(at, offset) for (number, offset), at in self.trickle.delivered.items() if number == partition]
            read = [(at, offset) for (number, offset), at in self.read_at.items() if number == partition]
            latest = [f"{offset} {now - at:.1f} s ago" for at, offset in (max(delivered), max(read))]
            shown.append(f"partition {partition}: delivered {latest[0]}, read {latest[1]}")
        raise AssertionError("\n".join([*shown, "at last:", *map(str, self.events[-40:])]))


@asynccontextmanager
async def open_reading(
    kafka: RealKafka, topic: str, partitions: int, strategies: Sequence[str], members: int, producers: int = 1
) -> AsyncIterator[Reading]:
    """A trickle, and members of one group (named as the topic), which has settled; they leave in order at the end."""
    options = {"offset_initial": "oldest", "session_timeout": 10.0, "heartbeat_interval": 0.5}
    config = Config.from_mapping({**options, "rebalance_strategies": strategies})
    bootstrap = ",".join(kafka.bootstrap_servers)
    reading = Reading(partitions, Trickle(bootstrap, topic, partitions, rate=100.0, producers=producers))
    groups: list[ConsumerGroup] = []

    async def member(handler: Recorder) -> None:
        async with ConsumerGroup(kafka.bootstrap_servers, topic, config, observers=[reading.events.append]) as group:
            groups.append(group)
            await group.consume([topic], handler)

    async with trio.open_nursery() as nursery:
        for _ in range(members):
            reading.members.append(Recorder(reading.note))
            nursery.start_soon(member, reading.members[-1])
        await reading.until(reading.is_dealt, SETTLE_SECONDS)
        async with trio.open_nursery() as producing:
            producing.start_soon(reading.trickle.run)
            yield reading
            producing.cancel_scope.cancel()
        for group in groups:
            group.close_nowait()
