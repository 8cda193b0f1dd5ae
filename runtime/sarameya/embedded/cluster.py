"""The embedded cluster: its lifetime, its clock, and the methods that produce and inspect. Trio.

`EmbeddedCluster` is the public class. It owns the tasks: a listener for each broker, a task for each connection, one
timer. It calls the pure parts from one event loop: `cluster_state` for the brokers' state, `network.server` for their
connections. The failures that tests cause are in `cluster_controls`.
"""

from __future__ import annotations

import math
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType

import attrs
import trio

from sarameya.embedded.cluster_controls import ClusterControls
from sarameya.embedded.cluster_state import BrokerNode, BrokerSettings, ClusterState
from sarameya.embedded.fetch_sessions import DEFAULT_SESSION_SLOTS
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.messages import GroupDescription
from sarameya.embedded.log.partition_log import DEFAULT_MAX_BATCH_SIZE, PartitionLog
from sarameya.embedded.network.framing import DEFAULT_MAX_FRAME_SIZE
from sarameya.embedded.network.networks import MemoryNetwork, Network, TcpNetwork, TlsNetwork
from sarameya.embedded.network.server import BrokerServer
from sarameya.embedded.refusal import Refused
from sarameya.embedded.sasl import SaslConfig, SaslServerAuthenticator
from sarameya.error_codes import ErrorCode
from sarameya.errors import ConfigError
from sarameya.model import CommittedOffset, Headers, TopicPartition
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec

_BATCH_BYTES = 64 * 1024


@attrs.define(slots=True, eq=False)
class _Broker:
    """Tasks of a broker. Cancel `running` to stop it; `stopped` is set when it has stopped."""

    node: BrokerNode
    server: BrokerServer
    running: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    stopped: trio.Event = attrs.field(factory=trio.Event)


class EmbeddedCluster(ClusterControls):
    """Kafka brokers in this process, for any client: `async with EmbeddedCluster(topics={"orders": 4}) as cluster`.

    All data is in memory and is discarded at the end. The brokers lead the partitions of a topic in turn. The replicas
    of a partition are on all brokers, or on its leader and the `replication_factor` - 1 brokers after it.

    Call all methods from the event loop, inside the `async with`. Methods that are not `async` do not wait. They raise
    KafkaErrors with the code that a client would get. The methods of `ClusterControls` make things go wrong on purpose.

    Args:
        topics: Number of partitions of each topic to create.
        brokers: Number of brokers; their ids start at 0.
        racks: Rack of each broker that has one (KIP-881).
        replication_factor: Replicas of each partition; None: one on every broker.
        rack_aware_reads: Send consumers that name a rack to the replica there (KIP-392, Kafka's
            RackAwareReplicaSelector).
        host: Interface that brokers listen on over TCP.
        port: Port of broker 0; the next brokers use the ports after it. 0: any free ports.
        in_memory: Use streams of `cluster.transport` instead of TCP. A virtual clock (`trio.testing.MockClock`) then
            controls every timer.
        tls: A server's context, with which brokers speak only TLS.
        sasl: Require clients to authenticate.
        auto_create_topics: Create a topic when a client asks for its metadata.
        default_partitions: Partitions of a topic created without a number.
        max_batch_size: Largest record batch in bytes.
        max_frame_size: Largest request in bytes.
        fetch_session_slots: Fetch sessions of each broker (KIP-227). With 0, every fetch names all its partitions.
        groups: Settings of the group coordinators.
        wall_clock: Seconds since 1970, for record timestamps.
        seed: Makes the ids that brokers generate the same in every run.

    Raises:
        ConfigError: Racks or replicas are impossible.
        OSError: On entering, a port is in use.
        KafkaError: On entering, a topic is invalid.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        brokers: int = 1,
        racks: Mapping[int, str] | None = None,
        replication_factor: int | None = None,
        rack_aware_reads: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        in_memory: bool = False,
        tls: ssl.SSLContext | None = None,
        sasl: SaslConfig | None = None,
        auto_create_topics: bool = False,
        default_partitions: int = 1,
        max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        fetch_session_slots: int = DEFAULT_SESSION_SLOTS,
        groups: CoordinatorConfig | None = None,
        wall_clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self._initial_topics = dict(topics or {})
        self._initial_ports = [port + node_id if port else 0 for node_id in range(brokers)]
        _check(brokers, racks or {}, replication_factor)
        self._max_frame_size = max_frame_size
        network: Network = MemoryNetwork() if in_memory else TcpNetwork(host)
        self._network = network if tls is None else TlsNetwork(network, tls)
        self._state = ClusterState(
            BrokerSettings(
                auto_create_topics=auto_create_topics,
                default_partitions=default_partitions,
                max_batch_size=max_batch_size,
                racks=dict(racks or {}),
                replication_factor=replication_factor,
                rack_aware_reads=rack_aware_reads,
                fetch_session_slots=fetch_session_slots,
                groups=groups or CoordinatorConfig(),
            ),
            wall_clock=wall_clock,
            rng=random.Random(seed),
        )
        self._authenticator = None if sasl is None else partial(SaslServerAuthenticator, sasl, random.Random(seed))
        self._brokers: dict[int, _Broker] = {}
        self._lifetime: AbstractAsyncContextManager[None] = self._run()
        self._alarm = trio.Event()
        self._alarm_at = math.inf

    # Lifetime

    async def __aenter__(self) -> EmbeddedCluster:
        if not trio.lowlevel.in_trio_run():
            raise RuntimeError("an EmbeddedCluster runs on trio: run `sarameya broker` beside a program on asyncio")
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # An exception of the block propagates unchanged; the nursery would wrap it in an exception group.
        await self._lifetime.__aexit__(None, None, None)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        # Everything that can fail at the start runs before the nursery opens, so that no exception group is raised.
        async with AsyncExitStack() as cleanup:
            listeners = {}
            for node_id, wanted_port in enumerate(self._initial_ports):
                listener, host, port = await self._network.listen(node_id, wanted_port)
                cleanup.push_async_callback(listener.aclose)
                listeners[node_id] = listener
                server = BrokerServer(
                    self._state,
                    node_id,
                    self._rearm,
                    max_frame_size=self._max_frame_size,
                    authenticator=self._authenticator,
                )
                self._brokers[node_id] = _Broker(BrokerNode(node_id, host, port), server)
            for broker in self._brokers.values():
                self._state.node_up(broker.node, trio.current_time())
            for name, partitions in self._initial_topics.items():
                self._state.create_topic(name, partitions)
            cleanup.pop_all()
        async with trio.open_nursery() as self._nursery:
            for node_id, listener in listeners.items():
                self._start(self._brokers[node_id], listener)
            self._nursery.start_soon(self._keep_time)
            yield
            self._nursery.cancel_scope.cancel()

    def _start(self, broker: _Broker, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        # Created here and not in the task, so that a broker can be stopped before its task has run.
        broker.running, broker.stopped = trio.CancelScope(), trio.Event()
        self._nursery.start_soon(self._serve, broker, listener)

    async def _serve(self, broker: _Broker, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        async def serve(stream: trio.abc.Stream) -> None:
            await broker.server.serve(stream, self._network.client_host(stream))

        with broker.running:
            await trio.serve_listeners(serve, [listener])
        broker.stopped.set()

    async def _keep_time(self) -> None:
        while True:
            deadline = self._state.next_deadline()
            self._alarm, self._alarm_at = trio.Event(), math.inf if deadline is None else deadline
            with trio.move_on_at(self._alarm_at):
                await self._alarm.wait()
            self._state.handle_timer(trio.current_time())

    def _rearm(self) -> None:
        """Wake the timer if it would fire too late, since deadlines may have moved. Firing too early is harmless."""
        deadline = self._state.next_deadline()
        if deadline is not None and deadline < self._alarm_at:
            self._alarm.set()

    # Addresses

    @property
    def bootstrap_servers(self) -> list[str]:
        """`host:port` of each broker."""
        return [f"{broker.node.host}:{broker.node.port}" for broker in self._brokers.values()]

    @property
    def transport(self) -> Network:
        """The network that opens streams to the brokers: `await transport.connect(host, port)`."""
        return self._network

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, *, replication_factor: int | None = None) -> None:
        """Create a topic with empty partitions, led by the brokers in turn.

        Clients see it when they next ask for metadata.

        Args:
            name: Name of the topic.
            partitions: Number of partitions.
            replication_factor: Replicas of each partition; None: the cluster's default.

        Raises:
            Refused: TOPIC_ALREADY_EXISTS; INVALID_PARTITIONS for less than one or too many; INVALID_TOPIC_EXCEPTION for
                an illegal name; INVALID_REPLICATION_FACTOR for none or more replicas than brokers.
        """
        self._state.create_topic(name, partitions, replication_factor)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, its records, and all commits for it.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for an internal topic.
        """
        self._state.delete_topic(name, trio.current_time())
        self._rearm()

    def log(self, topic: str, partition: int) -> PartitionLog:
        """Return the log of a partition, for inspection.

        Change it only through the cluster's methods, which wake waiting fetches.
        """
        return self._state.topics.partition(topic, partition).log

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> int:
        """Append one record and return its offset. `timestamp` is in milliseconds; None: now."""
        if timestamp is None:
            timestamp = self._now_ms()
        return self.append(topic, partition, build([(timestamp, key, value, headers)]))

    def produce_many(
        self,
        topic: str,
        partition: int,
        records: Iterable[tuple[bytes | None, bytes | None]],
        *,
        codec: Codec = Codec.NONE,
        batch_bytes: int = _BATCH_BYTES,
    ) -> range:
        """Append (key, value) records in batches, and return their offsets.

        A batch has about `batch_bytes` before compression.
        """
        first = self.log(topic, partition).end_offset
        timestamp = self._now_ms()
        batch: list[tuple[int, bytes | None, bytes | None, Headers]] = []
        size = 0
        for key, value in records:
            batch.append((timestamp, key, value, ()))
            size += len(key or b"") + len(value or b"")
            if size >= batch_bytes:
                self.append(topic, partition, build(batch, codec=codec))
                batch, size = [], 0
        if batch:
            self.append(topic, partition, build(batch, codec=codec))
        return range(first, self.log(topic, partition).end_offset)

    def append(self, topic: str, partition: int, batch: bytes) -> int:
        """Append one record batch (v2, as `protocol.records.build` makes it) and return its base offset."""
        appended = self._state.append(self._state.topics.partition(topic, partition), batch)
        self._state.complete_fetches(trio.current_time())
        self._rearm()
        return appended.base_offset

    # Groups

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all commits of a group.

        Raises:
            Refused: The coordinator is loading the group, or no broker coordinates it.
        """
        coordinator = self._state.coordinator(self._state.coordinator_node(group_id).id)
        fetched = coordinator.fetch_offsets(group_id, None)
        if fetched.error is not ErrorCode.NONE:
            raise Refused(fetched.error, f"the coordinator of group {group_id!r} is loading its groups")
        return dict(fetched.offsets)

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return the current state and members of a group."""
        return self._state.coordinator(self._state.coordinator_node(group_id).id).describe(group_id)

    # Stopping and starting brokers

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker: its connections drop, its port is closed, and it leaves every set of in-sync replicas.

        The next in-sync replica takes over its partitions and groups. Without such a replica, these have no leader and
        no coordinator until the broker starts again.

        Raises:
            Refused: The broker is not up.
        """
        broker = self._brokers[self._state.node(broker_id).id]
        self._state.node_down(broker_id, trio.current_time())
        self._rearm()
        broker.running.cancel()
        await broker.stopped.wait()
        broker.server.unfreeze()

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker at its old address, with complete logs and without its fetch sessions.

        It becomes the leader of the partitions that have had no leader since it stopped.

        Raises:
            OSError: Its port is in use.
        """
        broker = self._broker(broker_id)
        listener, _, _ = await self._network.listen(broker_id, broker.node.port)
        self._start(broker, listener)
        self._state.node_up(broker.node, trio.current_time())
        self._rearm()

    def _server(self, broker_id: int) -> BrokerServer:
        return self._broker(broker_id).server

    def _servers(self) -> list[BrokerServer]:
        return [broker.server for broker in self._brokers.values()]

    def _broker(self, broker_id: int) -> _Broker:
        try:
            return self._brokers[broker_id]
        except KeyError:
            known = ", ".join(map(str, self._brokers))
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"unknown broker {broker_id} (known: {known})") from None

    def _now_ms(self) -> int:
        return int(self._state.wall_clock() * 1000)


def _check(brokers: int, racks: Mapping[int, str], replication_factor: int | None) -> None:
    if not all(node_id in range(brokers) and isinstance(rack, str) and rack for node_id, rack in racks.items()):
        raise ConfigError("racks", racks, f"must map broker ids, 0 to {brokers - 1}, to names of racks")
    if replication_factor is not None and not 1 <= replication_factor <= brokers:
        raise ConfigError("replication_factor", replication_factor, f"must be 1 to {brokers}, the number of brokers")
