"""Other Kafka clients with the embedded broker over TCP: they produce, consume, and form groups that change.

The clients are separate programs (tests/integration/peers), so that the broker's event loop keeps running.
"""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import decode, split
from sarameya.protocol.records.compression import Codec
from tests.integration.peers.stage import open_stage

pytestmark = pytest.mark.integration

PEERS = Path(__file__).parent / "peers"
COUNT = 2_000
VALUES = {f"v{number}" for number in range(COUNT)}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DEADLINE = 30.0
"""Seconds for one client program."""


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster({"orders": 4}, brokers=2) as cluster:
        yield cluster


async def run(*command: str, stdin: bytes = b"") -> str:
    with trio.fail_after(DEADLINE):
        done = await trio.run_process(command, stdin=stdin, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
    return str(done.stdout.decode())


async def peer(name: str, *arguments: str) -> Any:
    return json.loads(await run(sys.executable, str(PEERS / f"{name}_peer.py"), *arguments))


def bootstrap(cluster: EmbeddedCluster) -> str:
    return ",".join(cluster.bootstrap_servers)


def stored(cluster: EmbeddedCluster) -> list[str]:
    """Return all values in the logs of `orders`."""
    values = []
    for number in range(4):
        partition = TopicPartition("orders", number)
        for data in cluster.log(*partition).batches():
            for raw in split(data, partition, 0):
                values += [message.value.decode() for message in decode(raw, partition) if message.value is not None]
    return values


def codecs(cluster: EmbeddedCluster) -> set[Codec]:
    batches = [data for number in range(4) for data in cluster.log("orders", number).batches()]
    return {Codec(raw.attributes & 7) for data in batches for raw in split(data, TopicPartition("orders", 0), 0)}


def fill(cluster: EmbeddedCluster) -> None:
    for number in range(4):
        values = [(b"k%d" % n, b"v%d" % n) for n in range(number, COUNT, 4)]
        cluster.produce_many("orders", number, values, codec=Codec.LZ4, batch_bytes=1_000)


def assert_all_committed_and_left(cluster: EmbeddedCluster, group: str) -> None:
    ends = {TopicPartition("orders", number): cluster.log("orders", number).end_offset for number in range(4)}
    assert {partition: committed.offset for partition, committed in cluster.committed(group).items()} == ends
    described = cluster.describe_group(group)
    assert (described.state, described.members) == (GroupState.EMPTY, ())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("mode", ["idempotent", "plain"])
async def test_aiokafka_produces(cluster: EmbeddedCluster, codec: str, mode: str) -> None:
    answer = await peer("aiokafka", "produce", bootstrap(cluster), "orders", str(COUNT), codec, mode)
    values = stored(cluster)
    assert (len(values), set(values)) == (COUNT, VALUES)
    assert codecs(cluster) == {Codec[codec.upper()]}
    assert sorted(map(tuple, answer["offsets"])) == sorted((p, o) for p in range(4) for o in range(COUNT // 4))


async def test_aiokafka_consumes_with_two_members(cluster: EmbeddedCluster) -> None:
    fill(cluster)
    answer = await peer("aiokafka", "consume", bootstrap(cluster), "orders", str(COUNT), "aio")
    assert set(answer["values"]) == VALUES
    assert sorted(answer["assignments"]) == [[0, 2], [1, 3]], "as its round robin assigns them"
    assert_all_committed_and_left(cluster, "aio")


@pytest.mark.parametrize("codec", CODECS)
async def test_confluent_kafka_produces(cluster: EmbeddedCluster, codec: str) -> None:
    answer = await peer("confluent", "produce", bootstrap(cluster), "orders", str(COUNT), codec)
    values = stored(cluster)
    assert (len(values), set(values)) == (COUNT, VALUES)
    assert codecs(cluster) == {Codec[codec.upper()]}
    assert len({tuple(offset) for offset in answer["offsets"]}) == COUNT


async def test_confluent_kafka_consumes_in_a_group(cluster: EmbeddedCluster) -> None:
    fill(cluster)
    answer = await peer("confluent", "consume", bootstrap(cluster), "orders", str(COUNT), "rdkafka")
    assert sorted(answer["values"]) == sorted(VALUES)
    assert answer["assignments"] == [[0, 1, 2, 3]]
    assert_all_committed_and_left(cluster, "rdkafka")


async def test_kafka_python_produces_and_consumes_in_a_group(cluster: EmbeddedCluster) -> None:
    await peer("kafka_python", "produce", bootstrap(cluster), "orders", str(COUNT), "zstd")
    assert sorted(stored(cluster)) == sorted(VALUES)
    answer = await peer("kafka_python", "consume", bootstrap(cluster), "orders", str(COUNT), "kpy")
    assert sorted(answer["values"]) == sorted(VALUES)
    assert_all_committed_and_left(cluster, "kpy")


async def test_kcat_lists_produces_and_consumes(cluster: EmbeddedCluster) -> None:
    listing = await run("kcat", "-b", bootstrap(cluster), "-L", "-J")
    (topic,) = json.loads(listing)["topics"]
    assert topic["topic"] == "orders"
    assert [(p["partition"], p["leader"]) for p in topic["partitions"]] == [(0, 0), (1, 1), (2, 0), (3, 1)]

    lines = "\n".join(sorted(VALUES)).encode()
    # kcat does not compress a batch that would not get smaller, such as a single record. So it waits for more records,
    # and spreads them: with sticky partitioning, some partition might get a single record on a slow machine.
    together = ("-X", "linger.ms=5000", "-X", "sticky.partitioning.linger.ms=0")
    await run("kcat", "-b", bootstrap(cluster), "-P", "-t", "orders", "-z", "snappy", *together, stdin=lines)
    assert sorted(stored(cluster)) == sorted(VALUES)
    assert codecs(cluster) == {Codec.SNAPPY}
    assert sorted((await run("kcat", "-b", bootstrap(cluster), "-C", "-t", "orders", "-e", "-q")).split()) == sorted(
        VALUES
    )


async def test_kcat_consumes_in_a_group(cluster: EmbeddedCluster) -> None:
    fill(cluster)
    output = await run(
        *("kcat", "-b", bootstrap(cluster), "-G", "cat", "-e", "-q", "-X", "auto.offset.reset=earliest", "orders")
    )
    assert sorted(output.split()) == sorted(VALUES)
    assert_all_committed_and_left(cluster, "cat")


SAME = [(kind, kind, kind) for kind in ("aiokafka", "confluent-kafka", "kafka-python", "java")]
MIXED = ("java", "confluent-kafka", "aiokafka", "kafka-python")
COOPERATIVE = [("confluent-kafka",) * 3, ("kafka-python",) * 3, ("java",) * 3, ("java", "kafka-python", "java")]


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [*(("range", kinds) for kinds in [*SAME, MIXED]), *(("cooperative-sticky", kinds) for kinds in COOPERATIVE)],
    ids=lambda value: value if isinstance(value, str) else "+".join(dict.fromkeys(value)),
)
async def test_group_of_peers_forms_grows_and_shrinks(strategy: str, kinds: tuple[str, ...]) -> None:
    short_sessions = CoordinatorConfig(min_session_timeout=1.0)
    async with (
        EmbeddedCluster({"orders": 6}, brokers=2, groups=short_sessions) as cluster,
        open_stage(bootstrap(cluster), "orders", 6, group="g") as stage,
    ):
        members = []
        for kind in kinds:
            members.append(await stage.start(kind, strategy))
            await stage.settled()
        await members[1].stop()
        owned = await stage.settled()
        assert stage.read_twice() == set(), "no member has been killed yet"
        leader = members[0]
        assert cluster.describe_group("g").leader.startswith(leader.client_id)
        await leader.kill()
        await stage.settled()
        assert stage.read_twice() <= owned[leader.client_id], "the other members have committed all that they had read"
