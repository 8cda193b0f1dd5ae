"""The clusters that plays take place on: made ready, and where their brokers are. Trio.

A stage is any cluster that speaks Kafka's protocol. `embedded_stage` and `live_stage` are the two kinds there are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import attrs
import trio
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.offsets_partition import partition_for
from sarameya.testing import CoordinatorConfig, memory_cluster
from tests.embedded.api_kit import request
from tests.embedded.wire_client import WireClient

Connect = Callable[[str, int], Awaitable[trio.abc.Stream]]

TOPICS = {"orders": 2, "returns": 1}
"""What is there in every play."""
SHORTEST_SESSION = 0.5
"""Seconds; `tests.integration.real_kafka` sets the same as group.min.session.timeout.ms."""
FEW = 3
"""group.max.size of the clusters of three brokers."""

_READY_SECONDS = 60.0
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
    """Part of each group's id: a cluster may have seen plays before."""
    brokers: Mapping[int, Broker]
    """By node id."""

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
        return self.brokers[leaders[partition_for(group, len(leaders))]]

    async def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> node id of its leader; empty if there is no such topic."""
        [found] = (await self._metadata([{"name": topic}])).topics
        return {p.partition_index: p.leader_id for p in found.partitions}

    async def meet_brokers(self) -> Stage:
        """This stage with its `brokers` filled in."""
        found = (await self._metadata([])).brokers
        return attrs.evolve(self, brokers={b.node_id: Broker(b.node_id, b.host, b.port) for b in found})

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
    if brokers > 1:
        limits = attrs.evolve(limits, max_size=FEW)
    async with memory_cluster(brokers=brokers, groups=limits) as cluster:
        yield await _made_ready(cluster.transport.connect, cluster.bootstrap_servers[0], "")


async def live_stage(bootstrap: str, run: str) -> Stage:
    """A cluster over TCP. `run` keeps its groups apart from those of earlier runs."""
    return await _made_ready(trio.open_tcp_stream, bootstrap, run)


async def _made_ready(connect: Connect, bootstrap: str, run: str) -> Stage:
    """A real cluster's offsets topic is made, elected and loaded when it is first asked for."""
    host, _, port = bootstrap.rpartition(":")
    stage = Stage(connect, (host, int(port)), run, {})
    with trio.fail_after(_READY_SECONDS):
        await _create_topics(stage)
        for n in range(_PROBES):
            while not await _serves(stage, f"probe-{n}"):
                await trio.sleep(_RETRY_SECONDS)
        return await stage.meet_brokers()


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


async def _serves(stage: Stage, group: str) -> bool:
    try:
        _, host, port = await stage.coordinator(group)
    except NotReadyError:
        return False
    async with stage.client(host, port) as client:
        answer = await client.ask(request(OffsetFetchRequest, 5, group_id=group, topics=[]))
    return bool(answer.error_code == ErrorCode.NONE)
