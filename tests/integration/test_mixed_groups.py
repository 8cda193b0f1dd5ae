"""Members of Sarameya and of other clients in one group on Apache Kafka. Each kind of client leads once."""

from __future__ import annotations

import time
from collections.abc import Sequence

import attrs
import pytest

from tests.integration.peers.stage import Owned, Stage, open_stage
from tests.integration.real_kafka import RealKafka

pytestmark = pytest.mark.integration

PARTITIONS = 8
KEPT_DELAY = 1.0
"""The longest permitted time from a message's acknowledgement until a member has read it, in seconds."""


@attrs.define
class KeptPartitions:
    """Waits for a group to settle, and checks that Sarameya's members read their kept partitions without pause."""

    stage: Stage
    _owned: Owned = attrs.field(factory=dict)
    _since: float = attrs.field(factory=time.time)

    async def settled(self) -> Owned:
        before, since = self._owned, self._since
        after = self._owned = await self.stage.settled()
        self._since = time.time()
        for peer in self.stage.peers.live:
            if peer.kind == "sarameya":
                kept = before.get(peer.client_id, set()) & after[peer.client_id]
                lines = [line for line in peer.lines if line.at >= since]
                changed = {n for line in lines if line.event != "message" for n in line.partitions}
                assert not kept & changed, f"{peer.client_id} has kept {kept}, and reported {peer.changes()}"
                read = [line for line in lines if line.event == "message" and line.place[0] in kept]
                assert {line.place[0] for line in read} == kept
                # Not the time since the previous message: on a busy machine the producer may pause too.
                delivered = self.stage.trickle.delivered
                delays = [line.at - delivered.get(line.place, line.at) for line in read]
                assert max(delays, default=0.0) < KEPT_DELAY
        return after


@pytest.mark.parametrize(
    "kinds",
    [
        ("sarameya", "java", "confluent-kafka", "aiokafka"),
        ("java", "sarameya", "aiokafka", "confluent-kafka"),
        ("confluent-kafka", "sarameya", "java", "aiokafka"),
        ("aiokafka", "sarameya", "confluent-kafka", "java"),
    ],
    ids=lambda kinds: f"led-by-{kinds[0]}",
)
async def test_range_group_grows_and_shrinks_with_each_leader(real_kafka: RealKafka, kinds: tuple[str, ...]) -> None:
    name = f"mixed-range-{kinds[0]}"
    topic = real_kafka.create_topic(name, PARTITIONS)
    async with open_stage(real_kafka.bootstrap_servers[0], topic, PARTITIONS, group=name) as stage:
        members = {}
        for kind in kinds:  # the first member leads
            members[kind] = await stage.start(kind)
            await stage.settled()
        assert bool(members["sarameya"].reports("led")) == (kinds[0] == "sarameya")

        await members[kinds[2]].stop()
        owned = await stage.settled()
        assert stage.read_twice() == set(), "no member was killed yet"

        leader = members[kinds[0]]
        await leader.kill()
        await stage.settled()
        assert stage.read_twice() <= owned[leader.client_id], "the other members have committed all that they read"

        late = await stage.start("sarameya")
        await members[kinds[3]].stop()
        assert (await stage.settled())[late.client_id]


@pytest.mark.parametrize(
    "kinds",
    [
        ("sarameya", "confluent-kafka", "java", "sarameya"),
        ("confluent-kafka", "sarameya", "sarameya", "java"),
        ("java", "sarameya", "confluent-kafka", "kafka-python"),
    ],
    ids=lambda kinds: f"led-by-{kinds[0]}",
)
async def test_cooperative_group_grows_and_shrinks_without_pause(real_kafka: RealKafka, kinds: tuple[str, ...]) -> None:
    await grow_and_shrink_cooperatively(real_kafka, kinds)


async def test_cooperative_group_grows_and_shrinks_on_kafka_3_too(real_kafka_3: RealKafka) -> None:
    await grow_and_shrink_cooperatively(real_kafka_3, ("sarameya", "confluent-kafka", "java", "sarameya"))


async def grow_and_shrink_cooperatively(kafka: RealKafka, kinds: Sequence[str]) -> None:
    name = f"mixed-cooperative-{kinds[0]}"
    topic = kafka.create_topic(name, PARTITIONS)
    async with open_stage(kafka.bootstrap_servers[0], topic, PARTITIONS, group=name) as stage:
        kept_partitions, members = KeptPartitions(stage), []
        for kind in kinds:
            members.append(await stage.start(kind, "cooperative-sticky"))
            await kept_partitions.settled()
        sarameya = next(member for member in members if member.kind == "sarameya")
        assert bool(sarameya.reports("led")) == (sarameya is members[0])

        await members[2].stop()
        owned = await kept_partitions.settled()
        assert stage.read_twice() == set(), "no member was killed yet"

        await members[0].kill()
        await kept_partitions.settled()
        assert stage.read_twice() <= owned[members[0].client_id], "the other members have committed all that they read"
