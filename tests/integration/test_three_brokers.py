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

from sarameya import Config, ConsumerGroup, Event
from sarameya.observe import MembershipChanged
from tests.group.kit import Recorder
from tests.integration.peers.stage import Trickle
from tests.integration.real_kafka import Node, RealKafka

pytestmark = pytest.mark.integration

PARTITIONS = 6
MEMBERS = 3
SECONDS = {"stopped": 10.0, "killed": 20.0}
"""From a broker's end until something produced after it has been read of every partition."""
BROKER_SECONDS = 60.0
"""What a broker may take to be back in step with the others."""


@attrs.define
class Reading:
    """A group of ours at work."""

    members: list[Recorder] = attrs.field(factory=list)
    events: list[Event] = attrs.field(factory=list)

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

    async def has_read_since(self, moment: float) -> None:
        """Wait until a message produced after `moment` has been read of each partition."""

        def latest() -> dict[int, float]:
            # Each message's value is the time at which it was produced.
            return {m.partition: float(m.value or 0) for member in self.members for m in member.messages[-100:]}

        await until(lambda: sum(produced > moment for produced in latest().values()) == PARTITIONS)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.sleep(0.02)


@asynccontextmanager
async def open_reading(kafka: RealKafka, topic: str, strategy: str) -> AsyncIterator[Reading]:
    """Three members of one group, which has settled; they leave in order at the end."""
    config = Config.from_mapping(
        {
            "rebalance_strategies": [strategy],
            "offset_initial": "oldest",
            "session_timeout": 10.0,
            "heartbeat_interval": 0.5,
        }
    )
    reading = Reading()
    groups: list[ConsumerGroup] = []

    async def member(handler: Recorder) -> None:
        async with ConsumerGroup(kafka.bootstrap_servers, topic, config, observers=[reading.events.append]) as group:
            groups.append(group)
            await group.consume([topic], handler)

    async with trio.open_nursery() as nursery:
        for _ in range(MEMBERS):
            reading.members.append(Recorder())
            nursery.start_soon(member, reading.members[-1])
        await until(reading.is_dealt)
        yield reading
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
    trickle = Trickle(",".join(kafka.bootstrap_servers), topic, PARTITIONS, rate=100.0)
    async with open_reading(kafka, topic, strategy) as reading, trio.open_nursery() as nursery:
        nursery.start_soon(trickle.run)
        await reading.has_read_since(0.0)
        await trio.to_thread.run_sync(in_step, kafka)
        settled, events = reading.memberships(), len(reading.events)

        for node in kafka.nodes:
            ended = time.time()
            await trio.to_thread.run_sync(end, node)
            with trio.fail_after(SECONDS[how]):
                await reading.has_read_since(ended)
            print(f"broker {node.node_id} {how}: read on after {time.time() - ended:.1f} s")
            node.start()
            await trio.to_thread.run_sync(in_step, kafka)
            await reading.has_read_since(time.time())

        assert reading.memberships() == settled
        assert [event for event in reading.events[events:] if isinstance(event, MembershipChanged)] == []
        await trickle.another_round()
        nursery.cancel_scope.cancel()
        delivered = set(trickle.delivered)
        await until(
            lambda: delivered <= {(n, offset) for n, offsets in reading.offsets().items() for offset in offsets}
        )

    for number, offsets in reading.offsets().items():
        assert offsets == list(range(len(offsets))), f"partition {number}: each once, in order, without a gap"
