"""Leaders move, and a broker is killed, while two members of a group read: which partitions wait, and how long.

The killed broker is the group's coordinator. Partitions that it led wait until Kafka notices its death and elects a
leader. Partitions that it followed acknowledge nothing until their in-sync set shrinks. All others must not wait.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import attrs
import pytest
import trio

from sarameya.observe import MembershipChanged
from tests.group.kit import Recorder
from tests.integration.group_reading import SETTLE_SECONDS, Reading, open_reading
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.real_kafka.replicas import (
    await_all_in_sync,
    elect_preferred,
    leaders,
    partitions_of,
    reassign,
)
from tests.integration.test_real_kafka_group import member

pytestmark = [pytest.mark.integration, pytest.mark.alone]

BROKERS = (1, 2, 3)
PARTITIONS = 12
MEMBERS = 2
QUIET_SECONDS = 3.0
"""Duration of the measurement without a disturbance."""
MOVED_SECONDS = 5.0
"""The longest permitted silence of a partition whose leader is moved by Kafka.

Measured on two busy processors: 0.6 to 2.1 s.
"""
KILLED_SECONDS = 20.0
"""The longest permitted silence of a partition whose leader is killed.

Measured: 3.8 to 5.1 s, of which Kafka takes 3 s to notice the death.
"""
READ_SECONDS = 5.0
"""The longest permitted time from a message's acknowledgement until the group has read it.

Measured: 0.1 to 1.8 s. The consumer requests new leaders with a backoff of up to 2 s.
"""
LATE_ACK_SECONDS = 1.0
"""Time after the broker's death in which a producer may get acknowledgements of messages that no other broker has."""
MORE_SECONDS = 1.0
"""Permitted excess over `Usual` for partitions that the killed broker does not lead. Measured: 0.1 s."""


def around(first: int, count: int) -> list[int]:
    """Return `count` brokers, starting with `first`."""
    return [BROKERS[(first + n) % len(BROKERS)] for n in range(count)]


WIDE = {number: around(number, 3) for number in range(PARTITIONS)}
NARROW = {number: around(number + 1, 2) for number in range(PARTITIONS)}
"""Replicas by partition, without the broker that `WIDE` prefers as the leader."""
MIXED = NARROW | {number: WIDE[number] for number in range(PARTITIONS - 3)}
"""Replicas by partition; each broker has no replica of one partition."""
PRODUCERS = 4
"""Number of producers: one that waits for the killed broker must not hold back the other partitions."""


@attrs.frozen
class Usual:
    """The longest silence of a partition, and from acknowledgement to reading, without a disturbance."""

    silence: float
    wait: float

    @classmethod
    async def of(cls, reading: Reading) -> Usual:
        since = time.time()
        await trio.sleep(QUIET_SECONDS)  # the real time of a real broker
        silence = max(reading.silences(since, time.time()).values())
        return cls(silence, await reading.slowest_since(since, SETTLE_SECONDS))


async def move_leaders(kafka: RealKafka, topic: str, reading: Reading) -> None:
    """Move all leaders, first by reassigning replicas, then by electing preferred leaders."""
    before, since = leaders(kafka, topic), time.time()
    await trio.to_thread.run_sync(reassign, kafka, topic, NARROW)
    await reading.has_read_on(SETTLE_SECONDS)
    reassigned, after = max(reading.silences(since, time.time()).values()), leaders(kafka, topic)
    assert all(before[number] != after[number] for number in range(PARTITIONS))

    await trio.to_thread.run_sync(reassign, kafka, topic, MIXED)
    began = time.time()
    await trio.to_thread.run_sync(elect_preferred, kafka)
    await reading.has_read_on(SETTLE_SECONDS)
    elected = max(reading.silences(began, time.time()).values())
    assert leaders(kafka, topic) == {number: nodes[0] for number, nodes in MIXED.items()}

    slowest = await reading.slowest_since(since, SETTLE_SECONDS)
    print(
        f"leaders moved: silent for {reassigned:.1f} s (reassigned), {elected:.1f} s (elected); read in {slowest:.1f} s"
    )
    assert max(reassigned, elected) < MOVED_SECONDS
    assert slowest < READ_SECONDS


async def kill_coordinator(kafka: RealKafka, topic: str, reading: Reading, usual: Usual) -> None:
    """Kill the broker that coordinates the group, then restart it and make it a leader again."""
    victim = await trio.to_thread.run_sync(kafka.coordinator, topic)
    partitions = partitions_of(kafka, topic)
    led = {number for number, partition in partitions.items() if partition.leader == victim.node_id}
    unrelated = {number for number, partition in partitions.items() if victim.node_id not in partition.replicas}
    followed = partitions.keys() - led - unrelated
    assert min(map(len, (led, followed, unrelated))) > 0

    killed_at = time.time()
    victim.kill()
    await reading.has_read_on(KILLED_SECONDS)
    silent = longest(reading.silences(killed_at, time.time()), led, followed, unrelated)
    print("killed: partitions that it led, followed, neither: silent for {:.1f}, {:.1f}, {:.1f} s".format(*silent))
    await check_waits(reading, killed_at, usual, led, unrelated | followed)
    assert silent[0] < KILLED_SECONDS
    assert silent[2] < usual.silence + MORE_SECONDS

    restarted_at = time.time()
    victim.start()
    await trio.to_thread.run_sync(await_all_in_sync, kafka)
    await trio.to_thread.run_sync(elect_preferred, kafka)
    await reading.has_read_on(SETTLE_SECONDS)
    silent = longest(reading.silences(restarted_at, time.time()), led, followed, unrelated)
    print("restarted: partitions that it led, followed, neither: silent for {:.1f}, {:.1f}, {:.1f} s".format(*silent))
    await check_waits(reading, restarted_at, usual, led, unrelated | followed)
    assert silent[0] < MOVED_SECONDS
    assert max(silent[1:]) < usual.silence + MORE_SECONDS


def longest(silences: Mapping[int, float], *groups: Collection[int]) -> list[float]:
    """Return the longest silence of each group of partitions."""
    return [max(silences[number] for number in numbers) for numbers in groups]


async def check_waits(
    reading: Reading, since: float, usual: Usual, led: Collection[int], neighbours: Collection[int]
) -> None:
    """Check how long acknowledged records waited to be read: those that the broker led, and the others."""
    slowest = await reading.slowest_since(since + LATE_ACK_SECONDS, SETTLE_SECONDS, led)
    elsewhere = await reading.slowest_since(since, SETTLE_SECONDS, neighbours)
    print(
        f"acknowledged to read: {slowest:.1f} s where it led, {elsewhere:.2f} s elsewhere (usual: {usual.wait:.2f} s)"
    )
    assert slowest < READ_SECONDS
    assert elsewhere < usual.wait + MORE_SECONDS


async def test_moving_and_killed_leaders_delay_only_their_partitions(real_kafka_of_three: RealKafka) -> None:
    kafka = real_kafka_of_three
    topic = kafka.create_topic("moved", replicas=[*WIDE.values()])
    async with open_reading(kafka, topic, PARTITIONS, ["cooperative-sticky"], MEMBERS, PRODUCERS) as reading:
        await reading.has_read_on(SETTLE_SECONDS)
        settled, events = reading.memberships(), len(reading.events)
        usual = await Usual.of(reading)
        await move_leaders(kafka, topic, reading)
        await kill_coordinator(kafka, topic, reading, usual)
        assert reading.memberships() == settled
        assert [event for event in reading.events[events:] if isinstance(event, MembershipChanged)] == []
    read = reading.offsets()
    for number, offsets in read.items():
        assert offsets == list(range(len(offsets))), f"partition {number}: lost, repeated or out of order"

    successor = Recorder()
    last = send(kafka, topic, ({"value": b"last", "partition": number} for number in range(PARTITIONS)))
    with trio.fail_after(SETTLE_SECONDS):
        async with member(kafka, topic, topic, successor):
            await successor.until(lambda: last <= {(m.partition, m.offset) for m in successor.messages})
    for number, end in last:
        assert successor.offsets(topic, number) == list(range(len(read[number]), end + 1)), (
            "did not resume at the last commit"
        )
