"""Our members beside other people's in one group, on Apache Kafka: led by us, and by each of them."""

from __future__ import annotations

import pytest

from tests.integration.peers.stage import open_stage
from tests.integration.real_kafka import RealKafka

pytestmark = pytest.mark.integration

PARTITIONS = 8


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
async def test_range_group_grows_and_shrinks_whoever_leads(real_kafka: RealKafka, kinds: tuple[str, ...]) -> None:
    name = f"mixed-range-{kinds[0]}"
    topic = real_kafka.create_topic(name, PARTITIONS)
    async with open_stage(real_kafka.bootstrap_servers[0], topic, PARTITIONS, group=name) as stage:
        members = {}
        for kind in kinds:  # who is there first leads
            members[kind] = await stage.start(kind)
            await stage.settled()
        assert bool(members["sarameya"].told("led")) == (kinds[0] == "sarameya")

        await members[kinds[2]].stop()
        owned = await stage.settled()
        assert stage.read_twice() == set(), "nobody has died yet"

        leader = members[kinds[0]]
        await leader.kill()
        await stage.settled()
        assert stage.read_twice() <= owned[leader.client_id], "the others have committed all they had read"

        late = await stage.start("sarameya")
        await members[kinds[3]].stop()
        assert (await stage.settled())[late.client_id]
