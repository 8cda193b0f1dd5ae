"""The clusters on which transcripts are played, and the addresses of their brokers.

A stage is any cluster with Kafka's protocol. `embedded_stage` starts the embedded broker, `live_stage` uses a real
cluster. Both return once the cluster is ready.
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
"""The topics of every play, with their partition counts."""
SHORTEST_SESSION = 0.5
"""In seconds; `tests.integration.real_kafka` sets the same as group.min.session.timeout.ms."""
FEW = 3
"""group.max.size of the clusters of three brokers."""

RACKS = ("rack-0", "rack-1", "rack-2")
"""The racks of those brokers."""

_CONFIGS = {
    # The records of transcripts are older than Kafka's default retention. And without segment.ms a new record would
    # start a new segment (a fetch reads from one segment).
    "retention.ms": "-1",
    "segment.ms": str(2**63 - 1),
    # There are thousands of files.
    "segment.index.bytes": "1024",
}

_READY_SECONDS = 60.0
_TOPICS_AT_ONCE = 100
_RETRY_SECONDS = 0.1
_PROBES = 40
"""Enough groups to use every partition of the offsets topic."""


class NotReadyError(Exception):
    """The cluster does not serve groups yet."""


class Broker(NamedTuple):
    node_id: int
    host: str
    port: int


@attrs.frozen
class Stage:
    """A cluster that is ready: the topics exist, and the coordinators of all groups respond."""

    connect: Connect
    bootstrap: tuple[str, int]
    run: str
    """A part of each group's and topic's name, since earlier runs may have used the cluster."""
    brokers: tuple[Broker, ...] = ()
    """Ordered by node id."""
    changes: Changes | None = None

    async def coordinator(self, group: str) -> Broker:
        """Return the broker that FindCoordinator names. Raises NotReadyError."""
        async with self.client(*self.bootstrap) as client:
            found = await client.ask(request(FindCoordinatorRequest, 2, key=group, key_type=0))
        if found.error_code:
            raise NotReadyError(f"FindCoordinator: {ErrorCode(found.error_code).name}")
        return Broker(found.node_id, found.host, found.port)

    async def offsets_leader(self, group: str) -> Broker:
        """Return the leader of the group's partition of the offsets topic, which has to be its coordinator."""
        leaders = await self.leaders("__consumer_offsets")
        return self.broker(leaders[partition_for(group, len(leaders))])

    def broker(self, node_id: int) -> Broker:
        return next(broker for broker in self.brokers if broker.node_id == node_id)

    async def create(self, topics: Mapping[str, int]) -> dict[str, uuid.UUID]:
        """Create topics with these partition counts, wait until all brokers know them, and return their ids.

        Broker n (modulo their number) leads partition n; all brokers have a replica. Records never expire.
        """
        ids = [broker.node_id for broker in self.brokers]
        wanted = [_topic(name, partitions, ids) for name, partitions in topics.items()]
        for some in [wanted[at : at + _TOPICS_AT_ONCE] for at in range(0, len(wanted), _TOPICS_AT_ONCE)]:
            await self.send(
                ids[0], request(CreateTopicsRequest, 4, topics=some, timeout_ms=20_000, validate_only=False)
            )
        for node_id in ids:
            while not (found := await self._known(node_id, topics)):
                await trio.sleep(_RETRY_SECONDS)
        return found

    async def delete(self, topic: str) -> None:
        """Delete a topic, and wait until all brokers know."""
        names = {"topic_names": [topic]}
        await self.send(self.brokers[0].node_id, request(DeleteTopicsRequest, 4, **names, timeout_ms=20_000))
        for broker in self.brokers:
            while await self._serves(broker.node_id, {topic: [0]}):
                await trio.sleep(_RETRY_SECONDS)

    async def send(self, node_id: int, message: Any) -> Any:
        """Send one request to one broker, on a new connection."""
        async with self.client(*self.broker(node_id)[1:]) as client:
            return await client.ask(message)

    async def _known(self, node_id: int, topics: Mapping[str, int]) -> dict[str, uuid.UUID]:
        """Return the ids of the topics if the broker knows them all and leads its partitions; otherwise nothing."""
        names = [{"name": name} for name in topics]
        found = (await self.send(node_id, request(MetadataRequest, 10, topics=names))).topics
        led = {t.name: [p.partition_index for p in t.partitions if p.leader_id == node_id] for t in found}
        if any(t.error_code or len(t.partitions) != topics[t.name] for t in found) or not await self._serves(
            node_id, led
        ):
            return {}
        return {t.name: t.topic_id for t in found}

    async def _serves(self, node_id: int, led: Mapping[str, Sequence[int]]) -> bool:
        """Return whether the broker responds as the leader of these partitions. A broker learns that with a delay."""
        topics = [
            {"name": name, "partitions": [{"partition_index": number, "timestamp": -1} for number in numbers]}
            for name, numbers in led.items()
        ]
        answer = await self.send(node_id, request(ListOffsetsRequest, 4, replica_id=-1, topics=topics))
        return not any(partition.error_code for topic in answer.topics for partition in topic.partitions)

    async def leaders(self, topic: str) -> dict[int, int]:
        """Return the node id of each partition's leader; nothing if the topic does not exist."""
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
    """Run the embedded broker in memory, for tests in virtual time."""
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
        stage = await _ready_stage(cluster.transport.connect, cluster.bootstrap_servers[0], "")
        yield attrs.evolve(stage, changes=EmbeddedChanges(cluster))


async def live_stage(bootstrap: str, run: str) -> Stage:
    """Return a stage on a cluster over TCP. `run` distinguishes its groups and topics from those of earlier runs."""
    stage = await _ready_stage(trio.open_tcp_stream, bootstrap, run)
    with trio.fail_after(_READY_SECONDS):
        while not await _coordinates_transactions(stage):
            await trio.sleep(_RETRY_SECONDS)
    return attrs.evolve(stage, changes=LiveChanges(stage.send, [broker.node_id for broker in stage.brokers]))


async def _ready_stage(connect: Connect, bootstrap: str, run: str) -> Stage:
    """Wait until a cluster is ready. A real one creates and loads its offsets topic upon the first request for it."""
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
    """Create the topics of every play; use those of earlier runs if they exist."""
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        for name, partitions in TOPICS.items()
    ]
    async with stage.client(*stage.bootstrap) as client:
        await client.ask(request(CreateTopicsRequest, 4, topics=topics, timeout_ms=20_000, validate_only=False))
    for name, partitions in TOPICS.items():
        while -1 in (leaders := await stage.leaders(name)).values() or not leaders:
            await trio.sleep(_RETRY_SECONDS)
        assert len(leaders) == partitions, f"another program has created {name}: it has {len(leaders)} partitions"


async def _coordinates(stage: Stage, group: str) -> bool:
    try:
        _, host, port = await stage.coordinator(group)
    except NotReadyError:
        return False
    async with stage.client(host, port) as client:
        answer = await client.ask(request(OffsetFetchRequest, 5, group_id=group, topics=[]))
    return bool(answer.error_code == ErrorCode.NONE)


async def _gives_producer_ids(stage: Stage, node_id: int) -> bool:
    """Request a producer id. A broker has its first ones only some time after the first request."""
    message = request(InitProducerIdRequest, 0, transactional_id=None, transaction_timeout_ms=60_000)
    return bool((await stage.send(node_id, message)).error_code == ErrorCode.NONE)


async def _coordinates_transactions(stage: Stage) -> bool:
    """Request transactional producers: the first request creates the topic of transactions."""
    ids = [f"probe-{n}" for n in range(_PROBES)]
    first = stage.brokers[0].node_id
    found = await stage.send(first, request(FindCoordinatorRequest, 4, key_type=1, coordinator_keys=ids))
    if any(coordinator.error_code for coordinator in found.coordinators):
        return False
    for coordinator in found.coordinators:
        message = request(InitProducerIdRequest, 0, transactional_id=coordinator.key, transaction_timeout_ms=60_000)
        if (await stage.send(coordinator.node_id, message)).error_code:
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
