"""A sarameya group that reads what a `Trickle` produces: which messages it read, when, and in which membership.

For tests that disturb the brokers meanwhile. The trickle records when each message was acknowledged. So a test can
separate the broker's delay (until the acknowledgement) from the consumer's (from there until the message is read).
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
"""The longest time for an undisturbed group to become stable and to read everything."""


@attrs.define
class Reading:
    """The members of the group, the messages that they have read, and their events."""

    partitions: int
    trickle: Trickle
    members: list[Recorder] = attrs.field(factory=list)
    events: list[Event] = attrs.field(factory=list)
    read_at: dict[tuple[int, int], float] = attrs.field(factory=dict)
    """(partition, offset) -> seconds since 1970."""

    async def note(self, _: Session, __: Claim, message: Message) -> None:
        self.read_at[message.partition, message.offset] = time.time()

    def offsets(self) -> dict[int, list[int]]:
        """Return the offsets of each partition, in the order in which they were read."""
        messages = [message for member in self.members for message in member.messages]
        return {number: [m.offset for m in messages if m.partition == number] for number in range(self.partitions)}

    def memberships(self) -> list[tuple[str, int, int]]:
        """Return member id, generation and number of the session of each member."""
        return [(m.sessions[-1].member_id, m.sessions[-1].generation, len(m.sessions)) for m in self.members]

    def is_balanced(self) -> bool:
        """Return whether every member owns the same number of partitions."""
        claims = [member.sessions[-1].claims for member in self.members if member.sessions]
        owned = [len(numbers) for claimed in claims for numbers in claimed.values()]
        return owned == [self.partitions // len(self.members)] * len(self.members)

    async def has_read_on(self, seconds: float) -> None:
        """Wait until each partition has a message that was acknowledged, and read, after this call."""
        seen = len(self.trickle.delivered)
        await self.until(
            lambda: len({n for n, _ in self.trickle.delivered_after(seen) & self.read_at.keys()}) == self.partitions,
            seconds,
        )

    async def slowest_since(self, moment: float, seconds: float, partitions: Collection[int] | None = None) -> float:
        """Return the longest time from a message's acknowledgement until it was read.

        Args:
            moment: only messages acknowledged after this time (in seconds since 1970), and before the call, count.
            seconds: the longest wait for messages that have not been read yet.
            partitions: the partitions that count; all by default.
        """
        chosen = range(self.partitions) if partitions is None else partitions
        delivered = {p: at for p, at in self.trickle.delivered.items() if at > moment and p[0] in chosen}
        await self.until(lambda: delivered.keys() <= self.read_at.keys(), seconds)
        return max(self.read_at[place] - at for place, at in delivered.items())

    def silences(self, since: float, until: float) -> dict[int, float]:
        """Return the longest time between two reads of each partition, from `since` until `until`."""
        times: dict[int, list[float]] = {number: [] for number in range(self.partitions)}
        for (number, _), at in self.read_at.items():
            if since < at < until:
                times[number].append(at)
        return {
            number: max(late - early for early, late in pairwise([since, *sorted(at), until]))
            for number, at in times.items()
        }

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait for a condition. Raises AssertionError, with the latest deliveries and reads, after `seconds`."""
        with trio.move_on_after(seconds):
            while not condition():
                await trio.sleep(0.02)
            return
        now, shown = time.time(), [f"the condition is still false after {seconds:g} s"]
        for partition in range(self.partitions):
            delivered = [(at, offset) for (number, offset), at in self.trickle.delivered.items() if number == partition]
            read = [(at, offset) for (number, offset), at in self.read_at.items() if number == partition]
            latest = [
                f"{each[1]} {now - each[0]:.1f} s ago" if (each := max(found, default=None)) else "nothing"
                for found in (delivered, read)
            ]
            shown.append(f"partition {partition}: delivered {latest[0]}, read {latest[1]}")
        raise AssertionError("\n".join([*shown, "latest events:", *map(str, self.events[-40:])]))


@asynccontextmanager
async def open_reading(
    kafka: RealKafka, topic: str, partitions: int, strategies: Sequence[str], members: int, producers: int = 1
) -> AsyncIterator[Reading]:
    """Run members of one group (named as the topic), wait until it is balanced, and produce a trickle.

    The members leave in order at the end of the block.
    """
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
        await reading.until(reading.is_balanced, SETTLE_SECONDS)
        async with trio.open_nursery() as producing:
            producing.start_soon(reading.trickle.run)
            yield reading
            producing.cancel_scope.cancel()
        for group in groups:
            group.close_nowait()
