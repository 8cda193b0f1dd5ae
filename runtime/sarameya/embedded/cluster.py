"""A cluster in the process: its lifetime, its clock, and what feeds it and looks into it. Trio.

`EmbeddedCluster` is what users see. It owns the tasks (a listener a broker, a task a connection, one timer) and calls
the pure parts, all from one event loop: `cluster_state` for what the brokers know, `server` for what is on the wire.
What hurts it, for tests, is in `controls`.
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
from sarameya.protocol.compression import Codec
from sarameya.protocol.records import build

_BATCH_BYTES = 64 * 1024


@attrs.define(slots=True, eq=False)
class _Broker:
    """One broker's tasks. `running` is cancelled to stop it, `stopped` is set when it has."""

    node: BrokerNode
    server: BrokerServer
    running: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    stopped: trio.Event = attrs.field(factory=trio.Event)


class EmbeddedCluster(ClusterControls):
    """Kafka brokers in this process, for any client: `async with EmbeddedCluster(topics={"orders": 4}) as cluster`.

    `brokers` of them, ids from 0. Over TCP on `host`: broker 0 at `port` (0: any free one), the next at the ports
    behind it. With `in_memory` over streams of `cluster.transport` only, and then a virtual clock
    (`trio.testing.MockClock`) rules every timer. With `tls`, a server's context, brokers speak TLS alone; with `sasl`
    they ask clients who they are. `wall_clock` (seconds since 1970) dates records; `seed` makes the ids the brokers
    give out the same in every run.

    Everything is in memory and gone at the end. Partition n of a topic is led by the n-th broker, round and round; it
    has replicas on all brokers, or on that one and those after it, in all `replication_factor`. Clients are told the
    rack of each broker that `racks` has one for (broker id -> rack, KIP-881), and with `rack_aware_reads` consumers who
    say theirs are sent to the replica there (KIP-392, Kafka's RackAwareReplicaSelector). Each broker keeps
    up to `fetch_session_slots` fetch sessions (KIP-227); with 0 every fetch names all its partitions.
    Making one raises ConfigError for racks or replicas that cannot be. Entering raises OSError if a port is taken,
    KafkaError for a topic that cannot be. All methods are called from the event loop, inside the `async with`; those
    that are not `async` do not wait. Errors raised by them are KafkaErrors, with the code a client would get.

    For tests, anything can go wrong on purpose: see `ClusterControls`, whose methods this class has.
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
        self._gate = None if sasl is None else partial(SaslServerAuthenticator, sasl, random.Random(seed))
        self._brokers: dict[int, _Broker] = {}
        self._lifetime: AbstractAsyncContextManager[None] = self._run()
        self._alarm = trio.Event()
        self._alarm_at = math.inf

    # Lifetime

    async def __aenter__(self) -> EmbeddedCluster:
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What the block raised goes on as it is: through the nursery it would come out in a group.
        await self._lifetime.__aexit__(None, None, None)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        # Whatever can go wrong at the start does so before there is a nursery, and is raised as it is.
        async with AsyncExitStack() as unserved:
            listeners = {}
            for node_id, wanted_port in enumerate(self._initial_ports):
                listener, host, port = await self._network.listen(node_id, wanted_port)
                unserved.push_async_callback(listener.aclose)
                listeners[node_id] = listener
                server = BrokerServer(
                    self._state, node_id, self._rearm, max_frame_size=self._max_frame_size, gate=self._gate
                )
                self._brokers[node_id] = _Broker(BrokerNode(node_id, host, port), server)
            for broker in self._brokers.values():
                self._state.node_up(broker.node, trio.current_time())
            for name, partitions in self._initial_topics.items():
                self._state.create_topic(name, partitions)
            unserved.pop_all()
        async with trio.open_nursery() as self._nursery:
            for node_id, listener in listeners.items():
                self._start(self._brokers[node_id], listener)
            self._nursery.start_soon(self._keep_time)
            yield
            self._nursery.cancel_scope.cancel()

    def _start(self, broker: _Broker, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        # Made here and not in the task, so that a broker can be stopped before its task has run at all.
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
        """Something changed: wake the timer if it would now come too late. Too early does no harm."""
        deadline = self._state.next_deadline()
        if deadline is not None and deadline < self._alarm_at:
            self._alarm.set()

    # Where it is

    @property
    def bootstrap_servers(self) -> list[str]:
        """`host:port` of each broker."""
        return [f"{broker.node.host}:{broker.node.port}" for broker in self._brokers.values()]

    @property
    def transport(self) -> Network:
        """Opens streams to the brokers: `await transport.connect(host, port)`."""
        return self._network

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, *, replication_factor: int | None = None) -> None:
        """Make a topic with so many empty partitions, dealt to the brokers in turn to lead.

        Clients see it when they next ask for metadata. Raises Refused: TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS for
        less than one or far too many, INVALID_TOPIC_EXCEPTION for a name that Kafka would not take,
        INVALID_REPLICATION_FACTOR for more replicas than brokers, or none (None: the cluster's).
        """
        self._state.create_topic(name, partitions, replication_factor)

    def delete_topic(self, name: str) -> None:
        """Take a topic away, with its records and all that groups have committed for it.

        Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION for a topic of the brokers' own.
        """
        self._state.delete_topic(name, trio.current_time())
        self._rearm()

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The log itself, to look into. What changes it goes through the cluster, which wakes who waits."""
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
        """Append (key, value) records in batches of about `batch_bytes` before compression. Returns their offsets."""
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
        self._settle()
        return appended.base_offset

    # Groups

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All that the group has committed. Raises Refused while nobody can tell: the coordinator loads, or is down."""
        coordinator = self._state.coordinator(self._state.coordinator_node(group_id).id)
        fetched = coordinator.fetch_offsets(group_id, None)
        if fetched.error is not ErrorCode.NONE:
            raise Refused(fetched.error, f"the coordinator of group {group_id!r} loads its groups")
        return dict(fetched.offsets)

    def describe_group(self, group_id: str) -> GroupDescription:
        """The group's state and members, as its coordinator sees them now."""
        return self._state.coordinator(self._state.coordinator_node(group_id).id).describe(group_id)

    # Brokers that end

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker: connections drop, nobody listens, it is in sync nowhere.

        What it led and coordinated is done by the next replica that is in sync, or by nobody till it is back.
        """
        broker = self._brokers[self._state.node(broker_id).id]
        self._state.node_down(broker_id, trio.current_time())
        self._rearm()
        broker.running.cancel()
        await broker.stopped.wait()
        broker.server.unfreeze()

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker at its old address, caught up with the leaders, without its fetch sessions.

        It leads again what nobody does since it stopped. Raises OSError if its port is taken.
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
            raise Refused(
                ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {broker_id} (there are: {known})"
            ) from None

    def _settle(self) -> None:
        self._state.settle(trio.current_time())
        self._rearm()

    def _now_ms(self) -> int:
        return int(self._state.wall_clock() * 1000)


def _check(brokers: int, racks: Mapping[int, str], replication_factor: int | None) -> None:
    if not all(node_id in range(brokers) and isinstance(rack, str) and rack for node_id, rack in racks.items()):
        raise ConfigError("racks", racks, f"must map broker ids, 0 to {brokers - 1}, to names of racks")
    if replication_factor is not None and not 1 <= replication_factor <= brokers:
        raise ConfigError("replication_factor", replication_factor, f"must be 1 to {brokers}, the number of brokers")
