"""What the brokers of a cluster know: nodes, topics, leaders, group coordinators, and who waits for what.

Pure, and the one owner of all of it: everything changes here, called from one event loop, and every call that may
change something ends in `settle(now)`, which wakes the requests that waited for the change. `apis` answer
requests out of it, `cluster` (the trio half) drives its timers and hurts it for tests.

The replicas of a partition share one log, since they are one process; `replicas` says what each is said to have of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from itertools import count

import attrs

from sarameya.embedded.coordinators import Coordinators
from sarameya.embedded.faults import Faults
from sarameya.embedded.fetch_sessions import DEFAULT_SESSION_SLOTS, FetchSessions
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.group_coordinator import GroupCoordinator
from sarameya.embedded.log.partition_log import DEFAULT_MAX_BATCH_SIZE, LogAppendInfo
from sarameya.embedded.purgatory import Purgatory
from sarameya.embedded.refusal import Refused
from sarameya.embedded.replicas import NO_LEADER, ReplicaLag
from sarameya.embedded.topics import EmbeddedPartition, EmbeddedTopic, TopicRegistry
from sarameya.error_codes import ErrorCode
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.protocol.offsets_partition import DEFAULT_OFFSETS_PARTITIONS, OFFSETS_TOPIC, partition_for


@attrs.frozen(slots=True)
class BrokerNode:
    """A broker as clients see it."""

    id: int
    host: str
    port: int


@attrs.frozen(slots=True)
class BrokerSettings:
    """What a cluster's brokers have in common. Sizes are bytes, counts are counts."""

    auto_create_topics: bool = False
    """auto.create.topics.enable: a client that asks for a topic gets it made."""
    default_partitions: int = 1
    """num.partitions, for topics made without a number."""
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE
    """message.max.bytes; a larger batch is refused with MESSAGE_TOO_LARGE."""
    offsets_partitions: int = DEFAULT_OFFSETS_PARTITIONS
    """offsets.topic.num.partitions; a group's partition of them decides its coordinator."""
    racks: Mapping[int, str] = attrs.field(factory=dict)
    """broker.rack, of the brokers that have one."""
    replication_factor: int | None = None
    """default.replication.factor, also of the offsets' topic; None: a replica on every broker."""
    rack_aware_reads: bool = False
    """replica.selector.class, RackAwareReplicaSelector or none: consumers are sent to the replica in their rack."""
    fetch_session_slots: int = DEFAULT_SESSION_SLOTS
    """max.incremental.fetch.session.cache.slots, of each broker."""
    groups: CoordinatorConfig = CoordinatorConfig()


class ClusterState:
    """The state of all brokers. `wall_clock` (seconds since 1970) dates records; `now` is the timers' clock."""

    def __init__(
        self, settings: BrokerSettings, *, wall_clock: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        rng = rng or random.Random()
        self.settings = settings
        self.wall_clock = wall_clock
        self.cluster_id = f"embedded-{rng.getrandbits(64):016x}"
        self.topics = TopicRegistry(max_batch_size=settings.max_batch_size, rng=rng)
        self.faults = Faults()
        self.fetches = Purgatory()
        """Fetches held back until there is enough to read, keyed by TopicPartition."""
        self._nodes: dict[int, BrokerNode] = {}
        self._fetch_sessions: dict[int, FetchSessions] = {}
        # Sessions draw on their own, so that what else is random does not depend on who fetches.
        self._session_rng = random.Random(self.cluster_id)
        self._coordinators = Coordinators(settings.groups, self.offsets_partition, self.append, wall_clock, rng)
        self._producer_ids = count(1)
        self._changed: dict[TopicPartition, None] = {}

    # Brokers

    @property
    def nodes(self) -> list[BrokerNode]:
        """The brokers that are up, by id."""
        return sorted(self._nodes.values(), key=lambda node: node.id)

    @property
    def up(self) -> list[int]:
        """The ids of the brokers that are up, sorted."""
        return sorted(self._nodes)

    @property
    def replica_ids(self) -> list[int]:
        """All brokers, up or not."""
        return self._coordinators.node_ids

    @property
    def default_replication_factor(self) -> int:
        """How many replicas a partition has unless it is said otherwise."""
        return self.settings.replication_factor or len(self.replica_ids)

    def node(self, node_id: int) -> BrokerNode:
        """Raises Refused with BROKER_NOT_AVAILABLE for a broker that is not up."""
        try:
            return self._nodes[node_id]
        except KeyError:
            up = ", ".join(map(str, self.up)) or "none"
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not up (up: {up})") from None

    def node_up(self, node: BrokerNode, now: float) -> None:
        """A broker is there, for the first time or again: it has caught up, and leads what has no leader if it was the
        last in sync."""
        self._nodes[node.id] = node
        self._fetch_sessions[node.id] = FetchSessions(self._session_rng, slots=self.settings.fetch_session_slots)
        self._coordinators.add(node.id)
        self._brokers_changed(now)

    def node_down(self, node_id: int, now: float) -> None:
        """A broker is gone; what it led is led by the next replica that is in sync, or waits for one."""
        del self._nodes[node_id]
        self._brokers_changed(now)

    def _brokers_changed(self, now: float) -> None:
        up = self.up
        for partition in self.topics.partitions():
            if partition.leader not in up:
                self._lead(partition, partition.replicas.elect(up), now)
            partition.settle(up)
            self._changed[partition.topic_partition] = None
        self.settle(now)

    # Topics

    def create_topic(
        self, name: str, partitions: int | None = None, replication_factor: int | None = None
    ) -> EmbeddedTopic:
        """Numbers that are None are the defaults. Raises Refused as `Topics.create` and `check_replication` do."""
        if partitions is None:
            partitions = self.settings.default_partitions
        if replication_factor is None:
            replication_factor = self.default_replication_factor
        else:
            self.check_replication(replication_factor)
        return self.topics.create(name, partitions, self.replica_ids, self.up, replication_factor)

    def check_replication(self, factor: int) -> None:
        """Raises Refused with INVALID_REPLICATION_FACTOR for more replicas than brokers, or none."""
        if not 1 <= factor <= len(self.replica_ids):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {factor}: there are {len(self.replica_ids)} brokers",
            )

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raises Refused as `Topics.grow` does."""
        self.topics.grow(name, partitions, self.replica_ids, self.up)

    def delete_topic(self, name: str, now: float) -> None:
        """Commits for it go too. Raises Refused with UNKNOWN_TOPIC_OR_PARTITION."""
        partitions = [partition.topic_partition for partition in self.topics.delete(name).partitions]
        self._changed.update(dict.fromkeys(partitions))
        self._coordinators.partitions_deleted(partitions)
        self.settle(now)

    def fetch_sessions(self, node_id: int) -> FetchSessions:
        """The broker's sessions; one that starts again has forgotten them."""
        return self._fetch_sessions[node_id]

    def led_partition(
        self, node_id: int, topic: str, number: int, leader_epoch: int = NO_LEADER_EPOCH
    ) -> EmbeddedPartition:
        """The partition, for a broker that was asked about it as its leader, by a client that knows `leader_epoch`.

        Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        partition = self.topics.partition(topic, number)
        if partition.leader != node_id:
            # A follower knows the epoch too, and who is wrong about it hears of that first.
            if node_id in partition.replicas.ids:
                partition.log.check_leader_epoch(leader_epoch)
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{partition.topic_partition} is led by broker {partition.leader}, not by {node_id}",
            )
        partition.log.check_leader_epoch(leader_epoch)
        return partition

    def append(self, partition: EmbeddedPartition, batch: bytes) -> LogAppendInfo:
        """Store a batch; `settle` wakes the fetches that waited for it. Raises Refused as the log does."""
        appended = partition.log.append(batch)
        self._changed[partition.topic_partition] = None
        return appended

    def touch(self, partition: TopicPartition, now: float) -> None:
        """The partition's log was changed by hand: whoever waits for it has another look."""
        self._changed[partition] = None
        self.settle(now)

    def move_leader(self, topic: str, number: int, node_id: int, now: float, load_time: float | None = None) -> None:
        """Broker `node_id` leads from now on, under a new epoch, unless it does already. Raises Refused.

        `load_time`: how long a group coordinator takes to read its groups; None: as configured.
        """
        self._lead(self.topics.partition(topic, number), self.node(node_id).id, now, load_time)
        self.settle(now)

    def truncate(self, topic: str, number: int, offset: int, now: float) -> None:
        """Raises Refused for an unknown partition, ValueError as the log does."""
        self.topics.partition(topic, number).truncate(offset)
        self.touch(TopicPartition(topic, number), now)

    def hold_replica(self, topic: str, number: int, node_id: int, lag: ReplicaLag, now: float) -> None:
        """Raises as `Partition.hold` does."""
        self.topics.partition(topic, number).hold(node_id, lag, self.up)
        self.touch(TopicPartition(topic, number), now)

    def release_replica(self, topic: str, number: int, node_id: int, now: float) -> None:
        self.topics.partition(topic, number).release(node_id, self.up)
        self.touch(TopicPartition(topic, number), now)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[tuple[str, int]] | None,
        *,
        committed: bool,
        now: float,
    ) -> dict[TopicPartition, int]:
        """Write the producer's markers, and say where they stand: see `EmbeddedCluster.end_transaction`."""
        if partitions is None:
            found = [p for p in self.topics.partitions() if producer_id in p.log.open_transactions]
        else:
            found = [self.topics.partition(*wanted) for wanted in partitions]
        for partition in found:
            partition.log.check_producer_epoch(producer_id, producer_epoch)
        timestamp = int(self.wall_clock() * 1000)
        written = {}
        for partition in found:
            appended = partition.log.append_marker(producer_id, producer_epoch, timestamp, committed=committed)
            written[partition.topic_partition] = appended.base_offset
        self._changed.update(dict.fromkeys(written))
        self.settle(now)
        return written

    def next_producer_id(self) -> int:
        return next(self._producer_ids)

    # Groups

    def coordinator(self, node_id: int) -> GroupCoordinator:
        return self._coordinators[node_id]

    def is_loading_groups(self, node_id: int) -> bool:
        """Whether the broker still reads groups that it coordinates from now on."""
        return self._coordinators.is_loading(node_id)

    def offsets_partition(self, group_id: str) -> EmbeddedPartition:
        """The partition of `__consumer_offsets` that keeps this group; made when it is first needed, as in Kafka."""
        topic = self.topics.get(OFFSETS_TOPIC)
        if topic is None:
            topic = self.create_topic(OFFSETS_TOPIC, self.settings.offsets_partitions)
        return topic.partitions[partition_for(group_id, len(topic.partitions))]

    def coordinator_node(self, group_id: str) -> BrokerNode:
        """The broker that coordinates this group. Raises Refused with COORDINATOR_NOT_AVAILABLE if none does."""
        node = self._nodes.get(self.offsets_partition(group_id).leader)
        if node is None:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no broker leads the offsets of group {group_id!r}")
        return node

    # Leaders

    def _lead(self, partition: EmbeddedPartition, node_id: int, now: float, load_time: float | None = None) -> None:
        if partition.leader == node_id:
            return
        keeps_groups = partition.topic_partition.topic == OFFSETS_TOPIC
        if keeps_groups and partition.leader != NO_LEADER:
            self._coordinators.give_up(partition, now)
        partition.lead(node_id, self.up)
        if keeps_groups and node_id != NO_LEADER:
            self._coordinators.take_over(partition, now, load_time)
        self._changed[partition.topic_partition] = None

    # Time

    def next_deadline(self) -> float | None:
        """When `handle_timer` has something to do, on the clock of `now`; None if nothing waits."""
        deadlines = [self._coordinators.next_deadline(), self.fetches.next_deadline()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Let everything expire whose time has come."""
        self._coordinators.handle_timer(now)
        self.fetches.expire(now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Wake the fetches that wait for what has changed since the last call."""
        while self._changed:
            partition, _ = self._changed.popitem()
            self.fetches.check_and_complete(partition, now)
