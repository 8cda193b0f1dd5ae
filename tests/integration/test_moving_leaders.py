"""Leaders move, and a broker is killed, while two members of a group read: who waits, for how long, and for what.

Where the killed broker led, Kafka takes its time to miss it; where it only had a replica, nothing is acknowledged
before Kafka has given that replica up; where it had nothing, nobody is to notice. It coordinates the group, too.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import attrs
import pytest
import trio

from sarameya.observe import MembershipChanged
from tests.group.kit import Recorder
from tests.integration.reading import SETTLE_SECONDS, Reading, open_reading
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
"""How long is looked at what is usual, before anything happens."""
MOVED_SECONDS = 5.0
"""For how long a partition may be silent whose leader moves in order.

Seen on two busy processors: 0.6 to 2.1 s.
"""
KILLED_SECONDS = 20.0
"""For how long a partition may be silent whose leader is killed.

Seen: 3.8 to 5.1 s, three of which it takes to be missed.
"""
OUR_SECONDS = 5.0
"""What of it may be ours: from a message's acknowledgement until it is read.

Seen: 0.1 to 1.8 s (leaders are looked for with growing pauses, of 2 s at the most).
"""
LAST_WORDS_SECONDS = 1.0
"""How long after a broker's end its last acknowledgements may be heard of, of messages it no longer gives out."""
MORE_SECONDS = 1.0
"""By how much more than usual a neighbour may be silent, or what was acknowledged wait to be read.

Seen: 0.1 s.
"""


def around(first: int, count: int) -> list[int]:
    """Return `count` brokers, starting with `first`."""
    return [BROKERS[(first + n) % len(BROKERS)] for n in range(count)]


WIDE = {number: around(number, 3) for number in range(PARTITIONS)}
NARROW = {number: around(number + 1, 2) for number in range(PARTITIONS)}
"""None is kept any more by the broker that led it."""
MIXED = NARROW | {number: WIDE[number] for number in range(PARTITIONS - 3)}
"""Each broker has nothing of one partition."""


PRODUCERS = 4
"""Each sends what waits for the killed broker, or what does not, to any one of the others."""


@attrs.frozen
class Usual:
    """The longest silence of a partition, and the longest wait for what was acknowledged, while nothing happens."""

    silence: float
    wait: float

    @classmethod
    async def of(cls, reading: Reading) -> Usual:
        since = time.time()
        await trio.sleep(QUIET_SECONDS)  # what is measured is time itself
        silence = max(reading.silences(since, time.time()).values())
        return cls(silence, await reading.slowest_since(since, SETTLE_SECONDS))


async def move_leaders(kafka: RealKafka, topic: str, reading: Reading) -> None:
    """Move all leaders in order: by reassignment, and by an election of preferred leaders."""
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

    ours = await reading.slowest_since(since, SETTLE_SECONDS)
    print(
        f"leaders moved: silent for {reassigned:.1f} s when reassigned, {elected:.1f} s when elected; ours {ours:.1f} s"
    )
    assert max(reassigned, elected) < MOVED_SECONDS
    assert ours < OUR_SECONDS


async def kill_coordinator(kafka: RealKafka, topic: str, reading: Reading, usual: Usual) -> None:
    """And start it again, and let it lead again."""
    victim = await trio.to_thread.run_sync(kafka.coordinator, topic)
    told = partitions_of(kafka, topic)
    led = {number for number, partition in told.items() if partition.leader == victim.node_id}
    apart = {number for number, partition in told.items() if victim.node_id not in partition.replicas}
    followed = told.keys() - led - apart
    assert min(map(len, (led, followed, apart))) > 0

    gone = time.time()
    victim.kill()
    await reading.has_read_on(KILLED_SECONDS)
    silent = longest(reading.silences(gone, time.time()), led, followed, apart)
    print("killed: what it led, followed, had nothing of was silent for {:.1f}, {:.1f}, {:.1f} s".format(*silent))
    await check_waits(reading, gone, usual, led, apart | followed)
    assert silent[0] < KILLED_SECONDS
    assert silent[2] < usual.silence + MORE_SECONDS

    back = time.time()
    victim.start()
    await trio.to_thread.run_sync(await_all_in_sync, kafka)
    await trio.to_thread.run_sync(elect_preferred, kafka)
    await reading.has_read_on(SETTLE_SECONDS)
    silent = longest(reading.silences(back, time.time()), led, followed, apart)
    print("back: what it led, followed, had nothing of was silent for {:.1f}, {:.1f}, {:.1f} s".format(*silent))
    await check_waits(reading, back, usual, led, apart | followed)
    assert silent[0] < MOVED_SECONDS
    assert max(silent[1:]) < usual.silence + MORE_SECONDS


def longest(silences: Mapping[int, float], *groups: Collection[int]) -> list[float]:
    """Return the longest silence of each group of partitions."""
    return [max(silences[number] for number in numbers) for numbers in groups]


async def check_waits(
    reading: Reading, since: float, usual: Usual, led: Collection[int], neighbours: Collection[int]
) -> None:
    """Check how long acknowledged records waited to be read: those that the broker led, and the others."""
    ours = await reading.slowest_since(since + LAST_WORDS_SECONDS, SETTLE_SECONDS, led)
    theirs = await reading.slowest_since(since, SETTLE_SECONDS, neighbours)
    print(f"of which ours: {ours:.1f} s at the most for what it led, else {theirs:.2f} s (usual: {usual.wait:.2f} s)")
    assert ours < OUR_SECONDS
    assert theirs < usual.wait + MORE_SECONDS


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
        assert offsets == list(range(len(offsets))), f"partition {number}: each once, in order, without a gap"

    successor = Recorder()
    last = send(kafka, topic, ({"value": b"last", "partition": number} for number in range(PARTITIONS)))
    with trio.fail_after(SETTLE_SECONDS):
        async with member(kafka, topic, topic, successor):
            await successor.until(lambda: last <= {(m.partition, m.offset) for m in successor.messages})
    for number, end in last:
        assert successor.offsets(topic, number) == list(range(len(read[number]), end + 1)), "on from the last commit"
