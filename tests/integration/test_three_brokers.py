"""Three brokers of Apache Kafka, each restarted or killed in turn, while a group of ours reads and a producer goes on.

A broker's end may cost waiting, and nothing else: no generation, no message, no order. `SECONDS` says how long.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sarameya import Claim, Config, ConsumerGroup, Event, Message, Session
from sarameya.observe import MembershipChanged
from tests.group.kit import Recorder
from tests.integration.peers.stage import Trickle
from tests.integration.real_kafka import Node, RealKafka

pytestmark = pytest.mark.integration

PARTITIONS = 6
MEMBERS = 3
SECONDS = {"stopped": 10.0, "killed": 20.0}
"""From the moment a broker is to end until something acknowledged after its end has been read of every partition.

Seen on two busy processors: 1.5 to 3 s when stopped, 3.5 to 7 s when killed (three of which it takes to be missed).
"""
OUR_SECONDS = 5.0
"""What of it may be ours: from a message's acknowledgement, by whichever broker leads by then, until it is read.

Seen: 0.2 s when stopped, up to 1.7 s when killed (leaders are looked for with growing pauses, of 2 s at the most).
"""
SETTLE_SECONDS = 20.0
"""What a group may take to agree, and to read what there is while nothing happens."""
LAST_WORDS_SECONDS = 1.0
"""How long after a broker's end its last acknowledgements may be heard of, of messages it no longer gives out."""
BROKER_SECONDS = 60.0
"""What a broker may take to be back in step with the others."""


@attrs.define
class Reading:
    """A group of ours at work on what a trickle produces."""

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
        return {number: [m.offset for m in messages if m.partition == number] for number in range(PARTITIONS)}

    def memberships(self) -> list[tuple[str, int, int]]:
        """Who each member is, in which generation, and in its how many-th session."""
        return [(m.sessions[-1].member_id, m.sessions[-1].generation, len(m.sessions)) for m in self.members]

    def is_dealt(self) -> bool:
        claims = [member.sessions[-1].claims for member in self.members if member.sessions]
        return [len(numbers) for claimed in claims for numbers in claimed.values()] == [PARTITIONS // MEMBERS] * MEMBERS

    async def has_read_on(self, seconds: float) -> None:
        """Wait until something acknowledged from now on has been read of each partition."""
        seen = len(self.trickle.delivered)
        await self.until(
            lambda: len({n for n, _ in self.trickle.delivered_after(seen) & self.read_at.keys()}) == PARTITIONS, seconds
        )

    async def slowest_since(self, moment: float) -> float:
        """The longest time from the acknowledgement of a message to its being read, of all until now."""
        delivered = {place: at for place, at in self.trickle.delivered.items() if at > moment}
        await self.until(lambda: delivered.keys() <= self.read_at.keys(), OUR_SECONDS)
        return max(self.read_at[place] - at for place, at in delivered.items())

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait for something; raises AssertionError, with what was delivered and read, when it takes too long."""
        with trio.move_on_after(seconds):
            while not condition():
                await trio.sleep(0.02)
            return
        now, shown = time.time(), [f"not after {seconds:g} s"]
        for partition in range(PARTITIONS):
            delivered = [(at, offset) for (number, offset), at in self.trickle.delivered.items() if number == partition]
            read = [(at, offset) for (number, offset), at in self.read_at.items() if number == partition]
            latest = [f"{offset} {now - at:.1f} s ago" for at, offset in (max(delivered), max(read))]
            shown.append(f"partition {partition}: delivered {latest[0]}, read {latest[1]}")
        raise AssertionError("\n".join([*shown, "at last:", *map(str, self.events[-40:])]))


@asynccontextmanager
async def open_reading(kafka: RealKafka, topic: str, strategy: str) -> AsyncIterator[Reading]:
    """A trickle, and three members of one group, which has settled; they leave in order at the end."""
    options = {"offset_initial": "oldest", "session_timeout": 10.0, "heartbeat_interval": 0.5}
    config = Config.from_mapping({**options, "rebalance_strategies": [strategy]})
    reading = Reading(Trickle(",".join(kafka.bootstrap_servers), topic, PARTITIONS, rate=100.0))
    groups: list[ConsumerGroup] = []

    async def member(handler: Recorder) -> None:
        async with ConsumerGroup(kafka.bootstrap_servers, topic, config, observers=[reading.events.append]) as group:
            groups.append(group)
            await group.consume([topic], handler)

    async with trio.open_nursery() as nursery:
        for _ in range(MEMBERS):
            reading.members.append(Recorder(reading.note))
            nursery.start_soon(member, reading.members[-1])
        await reading.until(reading.is_dealt, SETTLE_SECONDS)
        async with trio.open_nursery() as producing:
            producing.start_soon(reading.trickle.run)
            yield reading
            producing.cancel_scope.cancel()
        for group in groups:
            group.close_nowait()


def in_step(kafka: RealKafka) -> None:
    """Wait until every broker has every partition."""
    admin = AdminClient({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "log_level": 0})
    deadline = time.monotonic() + BROKER_SECONDS
    while not _is_in_step(admin, len(kafka.nodes)):
        assert time.monotonic() < deadline, f"the brokers are not in step after {BROKER_SECONDS:g} s"
        time.sleep(0.1)


def _is_in_step(admin: AdminClient, brokers: int) -> bool:
    try:
        topics = admin.list_topics(timeout=1).topics.values()
    except KafkaException:
        return False
    return all(len(partition.isrs) == brokers for topic in topics for partition in topic.partitions.values())


@pytest.mark.parametrize(
    ("how", "end", "strategy"),
    [("stopped", Node.stop, "range"), ("killed", Node.kill, "cooperative-sticky")],
    ids=["stopped", "killed"],
)
async def test_brokers_that_end_one_after_the_other_cost_no_generation_and_no_message(
    real_kafka_of_three: RealKafka, how: str, end: Callable[[Node], None], strategy: str
) -> None:
    kafka = real_kafka_of_three
    topic = kafka.create_topic("hurt", PARTITIONS)
    async with open_reading(kafka, topic, strategy) as reading:
        await reading.has_read_on(SETTLE_SECONDS)
        await trio.to_thread.run_sync(in_step, kafka)
        settled, events = reading.memberships(), len(reading.events)

        for node in kafka.nodes:
            began = time.time()
            await trio.to_thread.run_sync(end, node)
            gone = time.time()
            await reading.has_read_on(began + SECONDS[how] - gone)
            took = time.time() - began
            node.start()
            await trio.to_thread.run_sync(in_step, kafka)
            await reading.has_read_on(SETTLE_SECONDS)
            slowest = await reading.slowest_since(gone + LAST_WORDS_SECONDS)
            print(f"broker {node.node_id} {how}: read on after {took:.1f} s, of which ours {slowest:.1f} s at the most")
            assert slowest < OUR_SECONDS

        assert reading.memberships() == settled
        assert [event for event in reading.events[events:] if isinstance(event, MembershipChanged)] == []

    for number, offsets in reading.offsets().items():
        assert offsets == list(range(len(offsets))), f"partition {number}: each once, in order, without a gap"
