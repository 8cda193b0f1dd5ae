"""The clusters that plays take place on: made ready, and where their brokers are. Trio.

A stage is any cluster that speaks Kafka's protocol. `embedded_stage` and `live_stage` are the two kinds there are.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import attrs
import trio
from kafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.protocol.cluster.offsets_partition import partition_for
from sarameya.testing import CoordinatorConfig, virtual_wall_clock
from tests.embedded.api_kit import request
from tests.embedded.wire_client import WireClient
from tests.transcripts.changes import Changes, EmbeddedChanges, LiveChanges

Connect = Callable[[str, int], Awaitable[trio.abc.Stream]]

TOPICS = {"orders": 2, "returns": 1}
"""What is there in every play."""
SHORTEST_SESSION = 0.5
"""Seconds; `tests.integration.real_kafka` sets the same as group.min.session.timeout.ms."""
FEW = 3
"""group.max.size of the clusters of three brokers."""

RACKS = ("rack-0", "rack-1", "rack-2")
"""Of those brokers."""

_CONFIGS = {
    # The records of transcripts are older than any that are kept, and than what stands in one file with new ones (a
    # fetch reads from one).
    "retention.ms": "-1",
    "segment.ms": str(2**63 - 1),
    # There are thousands of files.
    "segment.index.bytes": "1024",
}

_READY_SECONDS = 60.0
_TOPICS_AT_ONCE = 100
_RETRY_SECONDS = 0.1
_PROBES = 40
"""Groups enough to meet each partition of the offsets topic."""


class NotReadyError(Exception):
    """The cluster does not serve groups yet."""


class Broker(NamedTuple):
    node_id: int
    host: str
    port: int


@attrs.frozen
class Stage:
    """A cluster made ready: topics are there, and every group's coordinator serves."""

    connect: Connect
    bootstrap: tuple[str, int]
    run: str
    """Part of each group's and topic's name: a cluster may have seen plays before."""
    brokers: tuple[Broker, ...] = ()
    """By node id."""
    changes: Changes | None = None

    async def coordinator(self, group: str) -> Broker:
        """The broker that FindCoordinator names. Raises NotReadyError."""
        async with self.client(*self.bootstrap) as client:
            found = await client.ask(request(FindCoordinatorRequest, 2, key=group, key_type=0))
        if found.error_code:
            raise NotReadyError(f"FindCoordinator: {ErrorCode(found.error_code).name}")
        return Broker(found.node_id, found.host, found.port)

    async def offsets_leader(self, group: str) -> Broker:
        """The broker that leads the group's partition of the offsets topic, which is to coordinate it."""
        leaders = await self.leaders("__consumer_offsets")
        return self.broker(leaders[partition_for(group, len(leaders))])

    def broker(self, node_id: int) -> Broker:
        return next(broker for broker in self.brokers if broker.node_id == node_id)

    async def create(self, topics: Mapping[str, int]) -> dict[str, uuid.UUID]:
        """Make topics, name -> number of partitions, and wait until all brokers know. Their ids.

        Partition n is led by the broker at place n, round and round; all brokers have it. Nothing in it expires.
        """
        ids = [broker.node_id for broker in self.brokers]
        wanted = [_topic(name, partitions, ids) for name, partitions in topics.items()]
        for some in [wanted[at : at + _TOPICS_AT_ONCE] for at in range(0, len(wanted), _TOPICS_AT_ONCE)]:
            await self.ask(ids[0], request(CreateTopicsRequest, 4, topics=some, timeout_ms=20_000, validate_only=False))
        for node_id in ids:
            while not (found := await self._known(node_id, topics)):
                await trio.sleep(_RETRY_SECONDS)
        return found

    async def delete(self, topic: str) -> None:
        """Take a topic away, and wait until all brokers know."""
        names = {"topic_names": [topic]}
        await self.ask(self.brokers[0].node_id, request(DeleteTopicsRequest, 4, **names, timeout_ms=20_000))
        for broker in self.brokers:
            while await self._serves(broker.node_id, {topic: [0]}):
                await trio.sleep(_RETRY_SECONDS)

    async def ask(self, node_id: int, ask: Any) -> Any:
        """Send one request to one broker, on a new connection."""
        async with self.client(*self.broker(node_id)[1:]) as client:
            return await client.ask(ask)

    async def _known(self, node_id: int, topics: Mapping[str, int]) -> dict[str, uuid.UUID]:
        """The ids of the topics where the broker knows them all and leads its partitions of them; else nothing."""
        names = [{"name": name} for name in topics]
        told = (await self.ask(node_id, request(MetadataRequest, 10, topics=names))).topics
        led = {t.name: [p.partition_index for p in t.partitions if p.leader_id == node_id] for t in told}
        if any(t.error_code or len(t.partitions) != topics[t.name] for t in told) or not await self._serves(
            node_id, led
        ):
            return {}
        return {t.name: t.topic_id for t in told}

    async def _serves(self, node_id: int, led: Mapping[str, Sequence[int]]) -> bool:
        """Return whether the broker responds as the leader of these partitions. A broker learns that with a delay."""
        topics = [
            {"name": name, "partitions": [{"partition_index": number, "timestamp": -1} for number in numbers]}
            for name, numbers in led.items()
        ]
        answer = await self.ask(node_id, request(ListOffsetsRequest, 4, replica_id=-1, topics=topics))
        return not any(partition.error_code for topic in answer.topics for partition in topic.partitions)

    async def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> node id of its leader; empty if there is no such topic."""
        [found] = (await self._metadata([{"name": topic}])).topics
        return {p.partition_index: p.leader_id for p in found.partitions}

    async def meet_brokers(self) -> Stage:
        """Return this stage with its `brokers` filled in."""
        found = (await self._metadata([])).brokers
        return attrs.evolve(self, brokers=tuple(sorted(Broker(b.node_id, b.host, b.port) for b in found)))

    async def _metadata(self, topics: Sequence[Mapping[str, str]]) -> Any:
        async with self.client(*self.bootstrap) as client:
            return await client.ask(request(MetadataRequest, 5, topics=topics, allow_auto_topic_creation=False))

    @asynccontextmanager
    async def client(self, host: str, port: int, client_id: str = "stage") -> AsyncIterator[WireClient]:
        async with await self.connect(host, port) as stream:
            yield WireClient(stream, client_id)


@asynccontextmanager
async def embedded_stage(brokers: int = 1) -> AsyncIterator[Stage]:
    """The embedded broker, in memory; meant for virtual time."""
    limits = CoordinatorConfig(min_session_timeout=SHORTEST_SESSION)
    racks = {}
    if brokers > 1:
        limits = attrs.evolve(limits, max_size=FEW)
        racks = dict(enumerate(RACKS))
    async with EmbeddedCluster(
        brokers=brokers,
        in_memory=True,
        groups=limits,
        racks=racks,
        rack_aware_reads=True,
        wall_clock=virtual_wall_clock,
        seed=0,
    ) as cluster:
        stage = await _made_ready(cluster.transport.connect, cluster.bootstrap_servers[0], "")
        yield attrs.evolve(stage, changes=EmbeddedChanges(cluster))


async def live_stage(bootstrap: str, run: str) -> Stage:
    """A cluster over TCP. `run` keeps its groups and topics apart from those of earlier runs."""
    stage = await _made_ready(trio.open_tcp_stream, bootstrap, run)
    with trio.fail_after(_READY_SECONDS):
        while not await _coordinates_transactions(stage):
            await trio.sleep(_RETRY_SECONDS)
    return attrs.evolve(stage, changes=LiveChanges(stage.ask, [broker.node_id for broker in stage.brokers]))


async def _made_ready(connect: Connect, bootstrap: str, run: str) -> Stage:
    """A real cluster's offsets topic is made, elected and loaded when it is first asked for."""
    host, _, port = bootstrap.rpartition(":")
    stage = Stage(connect, (host, int(port)), run)
    with trio.fail_after(_READY_SECONDS):
        await _create_topics(stage)
        for n in range(_PROBES):
            while not await _coordinates(stage, f"probe-{n}"):
                await trio.sleep(_RETRY_SECONDS)
        stage = await stage.meet_brokers()
        for broker in stage.brokers:
            while not await _gives_producer_ids(stage, broker.node_id):
                await trio.sleep(_RETRY_SECONDS)
        return stage


async def _create_topics(stage: Stage) -> None:
    """Topics that are there already, of earlier plays, are as good."""
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        for name, partitions in TOPICS.items()
    ]
    async with stage.client(*stage.bootstrap) as client:
        await client.ask(request(CreateTopicsRequest, 4, topics=topics, timeout_ms=20_000, validate_only=False))
    for name, partitions in TOPICS.items():
        while -1 in (leaders := await stage.leaders(name)).values() or not leaders:
            await trio.sleep(_RETRY_SECONDS)
        assert len(leaders) == partitions, f"{name} is somebody else's: it has {len(leaders)} partitions"


async def _coordinates(stage: Stage, group: str) -> bool:
    try:
        _, host, port = await stage.coordinator(group)
    except NotReadyError:
        return False
    async with stage.client(host, port) as client:
        answer = await client.ask(request(OffsetFetchRequest, 5, group_id=group, topics=[]))
    return bool(answer.error_code == ErrorCode.NONE)


async def _gives_producer_ids(stage: Stage, node_id: int) -> bool:
    """A broker has its first ones a moment after it is first asked."""
    ask = request(InitProducerIdRequest, 0, transactional_id=None, transaction_timeout_ms=60_000)
    return bool((await stage.ask(node_id, ask)).error_code == ErrorCode.NONE)


async def _coordinates_transactions(stage: Stage) -> bool:
    """The topic of transactions is made when somebody first asks for one."""
    ids = [f"probe-{n}" for n in range(_PROBES)]
    first = stage.brokers[0].node_id
    found = await stage.ask(first, request(FindCoordinatorRequest, 4, key_type=1, coordinator_keys=ids))
    if any(coordinator.error_code for coordinator in found.coordinators):
        return False
    for coordinator in found.coordinators:
        ask = request(InitProducerIdRequest, 0, transactional_id=coordinator.key, transaction_timeout_ms=60_000)
        if (await stage.ask(coordinator.node_id, ask)).error_code:
            return False
    return True


def _topic(name: str, partitions: int, node_ids: Sequence[int]) -> Mapping[str, Any]:
    """Return a topic in the form of CreateTopics."""
    count = len(node_ids)
    replicas = [[node_ids[(number + n) % count] for n in range(count)] for number in range(partitions)]
    return {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": n, "broker_ids": ids} for n, ids in enumerate(replicas)],
        "configs": [{"name": config, "value": value} for config, value in _CONFIGS.items()],
    }
