"""The state that all brokers of a cluster share: nodes, topics, leaders, coordinators, and waiting fetches.

Pure, and the only owner of this state. Every change is made here, from one event loop. Every method that may change a
log, except `append`, ends in `complete_fetches(now)`, which completes the fetches that waited for the change. `apis`
answers requests from this state; `cluster` (trio) runs its timers and causes failures for tests.

The replicas of a partition share one log, since all brokers are in one process. `replicas` bounds each follower's view
of it.
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
from sarameya.protocol.cluster.offsets_partition import DEFAULT_OFFSETS_PARTITIONS, OFFSETS_TOPIC, partition_for


@attrs.frozen(slots=True)
class BrokerNode:
    """A broker's address as clients see it."""

    id: int
    host: str
    port: int


@attrs.frozen(slots=True)
class BrokerSettings:
    """Settings that all brokers of a cluster share, with Kafka's names. Sizes are in bytes."""

    auto_create_topics: bool = False
    """auto.create.topics.enable: a metadata request for an unknown topic creates it."""
    default_partitions: int = 1
    """num.partitions, for topics created without a number."""
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE
    """message.max.bytes; a larger batch is refused with MESSAGE_TOO_LARGE."""
    offsets_partitions: int = DEFAULT_OFFSETS_PARTITIONS
    """offsets.topic.num.partitions; the leader of a group's partition is its coordinator."""
    racks: Mapping[int, str] = attrs.field(factory=dict)
    """broker.rack, for brokers that have one."""
    replication_factor: int | None = None
    """default.replication.factor, also for `__consumer_offsets`; None: a replica on every broker."""
    rack_aware_reads: bool = False
    """replica.selector.class: True for RackAwareReplicaSelector, which sends consumers to the replica in their rack."""
    fetch_session_slots: int = DEFAULT_SESSION_SLOTS
    """max.incremental.fetch.session.cache.slots of each broker."""
    groups: CoordinatorConfig = CoordinatorConfig()


class ClusterState:
    """The state of all brokers.

    `wall_clock` (seconds since 1970) provides record timestamps; `now` in the methods is the time of the timers.
    """

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
        """Fetches that wait for enough bytes, keyed by TopicPartition."""
        self._nodes: dict[int, BrokerNode] = {}
        self._fetch_sessions: dict[int, FetchSessions] = {}
        # Fetch sessions have their own generator, so that other random values do not depend on fetches.
        self._session_rng = random.Random(self.cluster_id)
        self._coordinators = Coordinators(settings.groups, self.offsets_partition, self.append, wall_clock, rng)
        self._producer_ids = count(1)
        self._changed: dict[TopicPartition, None] = {}

    # Brokers

    @property
    def nodes(self) -> list[BrokerNode]:
        """Brokers that are up, by id."""
        return sorted(self._nodes.values(), key=lambda node: node.id)

    @property
    def up(self) -> list[int]:
        """Ids of brokers that are up, sorted."""
        return sorted(self._nodes)

    @property
    def replica_ids(self) -> list[int]:
        """Ids of all brokers, up or not."""
        return self._coordinators.node_ids

    @property
    def default_replication_factor(self) -> int:
        """Replicas of a partition unless specified otherwise."""
        return self.settings.replication_factor or len(self.replica_ids)

    def node(self, node_id: int) -> BrokerNode:
        """Return a broker that is up.

        Raises:
            Refused: BROKER_NOT_AVAILABLE if it is not up.
        """
        try:
            return self._nodes[node_id]
        except KeyError:
            up = ", ".join(map(str, self.up)) or "none"
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not up (up: {up})") from None

    def node_up(self, node: BrokerNode, now: float) -> None:
        """Add a broker that has started, with complete logs.

        It becomes the leader of partitions without one if it was the last in-sync replica.
        """
        self._nodes[node.id] = node
        self._fetch_sessions[node.id] = FetchSessions(self._session_rng, slots=self.settings.fetch_session_slots)
        self._coordinators.add(node.id)
        self._brokers_changed(now)

    def node_down(self, node_id: int, now: float) -> None:
        """Remove a broker that has stopped.

        The next in-sync replica leads its partitions. A partition without one has no leader.
        """
        del self._nodes[node_id]
        self._brokers_changed(now)

    def _brokers_changed(self, now: float) -> None:
        up = self.up
        for partition in self.topics.partitions():
            if partition.leader not in up:
                self._lead(partition, partition.replicas.elect(up), now)
            partition.update_in_sync(up)
            self._changed[partition.topic_partition] = None
        self.complete_fetches(now)

    # Topics

    def create_topic(
        self, name: str, partitions: int | None = None, replication_factor: int | None = None
    ) -> EmbeddedTopic:
        """Create a topic. None means the default.

        Raises:
            Refused: As `TopicRegistry.create` and `check_replication` do.
        """
        if partitions is None:
            partitions = self.settings.default_partitions
        if replication_factor is None:
            replication_factor = self.default_replication_factor
        else:
            self.check_replication(replication_factor)
        return self.topics.create(name, partitions, self.replica_ids, self.up, replication_factor)

    def check_replication(self, factor: int) -> None:
        """Check a replication factor against the number of brokers.

        Raises:
            Refused: INVALID_REPLICATION_FACTOR for less than one replica, or more replicas than brokers.
        """
        if not 1 <= factor <= len(self.replica_ids):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {factor}: must be 1 to {len(self.replica_ids)}, the number of brokers",
            )

    def grow_topic(self, name: str, partitions: int) -> None:
        """Grow a topic to `partitions` partitions.

        Raises:
            Refused: As `TopicRegistry.grow` does.
        """
        self.topics.grow(name, partitions, self.replica_ids, self.up)

    def delete_topic(self, name: str, now: float) -> None:
        """Delete a topic and all commits for it.

        Raises:
            Refused: As `TopicRegistry.delete` does.
        """
        partitions = [partition.topic_partition for partition in self.topics.delete(name).partitions]
        self._changed.update(dict.fromkeys(partitions))
        self._coordinators.partitions_deleted(partitions)
        self.complete_fetches(now)

    def fetch_sessions(self, node_id: int) -> FetchSessions:
        """Return a broker's fetch sessions. A restarted broker starts without any."""
        return self._fetch_sessions[node_id]

    def led_partition(
        self, node_id: int, topic: str, number: int, leader_epoch: int = NO_LEADER_EPOCH
    ) -> EmbeddedPartition:
        """Return a partition that broker `node_id` must lead, for a client that knows `leader_epoch`.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        partition = self.topics.partition(topic, number)
        if partition.leader != node_id:
            # A follower checks the epoch, too: a wrong epoch takes precedence over a wrong broker.
            if node_id in partition.replicas.ids:
                partition.log.check_leader_epoch(leader_epoch)
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {node_id} does not lead {partition.topic_partition}, broker {partition.leader} does",
            )
        partition.log.check_leader_epoch(leader_epoch)
        return partition

    def append(self, partition: EmbeddedPartition, batch: bytes) -> LogAppendInfo:
        """Append a batch. `complete_fetches` then completes the fetches that waited for it.

        Raises:
            Refused: As `PartitionLog.append` does.
        """
        appended = partition.log.append(batch)
        self._changed[partition.topic_partition] = None
        return appended

    def log_changed(self, partition: TopicPartition, now: float) -> None:
        """Complete fetches after a test has changed a partition's log directly."""
        self._changed[partition] = None
        self.complete_fetches(now)

    def move_leader(self, topic: str, number: int, node_id: int, now: float, load_time: float | None = None) -> None:
        """Make broker `node_id` the leader under a new epoch, unless it already leads.

        Args:
            topic: The topic.
            number: The partition.
            node_id: The new leader.
            now: The current time.
            load_time: Seconds that a group coordinator takes to load its groups; None: as configured.

        Raises:
            Refused: The partition is unknown, or the broker is not up.
        """
        self._lead(self.topics.partition(topic, number), self.node(node_id).id, now, load_time)
        self.complete_fetches(now)

    def truncate(self, topic: str, number: int, offset: int, now: float) -> None:
        """Truncate a log.

        Raises:
            Refused: The partition is unknown.
            ValueError: As `PartitionLog.truncate` does.
        """
        self.topics.partition(topic, number).truncate(offset)
        self.log_changed(TopicPartition(topic, number), now)

    def hold_replica(self, topic: str, number: int, node_id: int, lag: ReplicaLag, now: float) -> None:
        """Stop a follower's replication at `lag`. Raises as `EmbeddedPartition.hold` does."""
        self.topics.partition(topic, number).hold(node_id, lag, self.up)
        self.log_changed(TopicPartition(topic, number), now)

    def release_replica(self, topic: str, number: int, node_id: int, now: float) -> None:
        """Let a held follower catch up."""
        self.topics.partition(topic, number).release(node_id, self.up)
        self.log_changed(TopicPartition(topic, number), now)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[tuple[str, int]] | None,
        *,
        committed: bool,
        now: float,
    ) -> dict[TopicPartition, int]:
        """Write the producer's transaction markers and return their offsets; see `EmbeddedCluster.end_transaction`."""
        if partitions is None:
            targets = [p for p in self.topics.partitions() if producer_id in p.log.open_transactions]
        else:
            targets = [self.topics.partition(topic, number) for topic, number in partitions]
        for partition in targets:
            partition.log.check_producer_epoch(producer_id, producer_epoch)
        timestamp = int(self.wall_clock() * 1000)
        written = {}
        for partition in targets:
            appended = partition.log.append_marker(producer_id, producer_epoch, timestamp, committed=committed)
            written[partition.topic_partition] = appended.base_offset
        self._changed.update(dict.fromkeys(written))
        self.complete_fetches(now)
        return written

    def next_producer_id(self) -> int:
        """Return a new producer id."""
        return next(self._producer_ids)

    # Groups

    def coordinator(self, node_id: int) -> GroupCoordinator:
        """Return a broker's group coordinator."""
        return self._coordinators[node_id]

    def is_loading_groups(self, node_id: int) -> bool:
        """Return True while the broker loads groups."""
        return self._coordinators.is_loading(node_id)

    def offsets_partition(self, group_id: str) -> EmbeddedPartition:
        """Return the group's partition of `__consumer_offsets`. As in Kafka, the first use creates the topic."""
        topic = self.topics.get(OFFSETS_TOPIC)
        if topic is None:
            topic = self.create_topic(OFFSETS_TOPIC, self.settings.offsets_partitions)
        return topic.partitions[partition_for(group_id, len(topic.partitions))]

    def coordinator_node(self, group_id: str) -> BrokerNode:
        """Return the broker that coordinates the group.

        Raises:
            Refused: COORDINATOR_NOT_AVAILABLE if the group's partition has no leader.
        """
        node = self._nodes.get(self.offsets_partition(group_id).leader)
        if node is None:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no broker leads the offsets partition of group {group_id!r}"
            )
        return node

    # Leaders

    def _lead(self, partition: EmbeddedPartition, node_id: int, now: float, load_time: float | None = None) -> None:
        if partition.leader == node_id:
            return
        keeps_groups = partition.topic_partition.topic == OFFSETS_TOPIC
        if keeps_groups and partition.leader != NO_LEADER:
            self._coordinators.unload_partition(partition, now)
        partition.lead(node_id, self.up)
        if keeps_groups and node_id != NO_LEADER:
            self._coordinators.load_partition(partition, now, load_time)
        self._changed[partition.topic_partition] = None

    # Time

    def next_deadline(self) -> float | None:
        """Return the time of the next `handle_timer` call, on the clock of `now`; None if nothing waits."""
        deadlines = [self._coordinators.next_deadline(), self.fetches.next_deadline()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Expire every operation that is due."""
        self._coordinators.handle_timer(now)
        self.fetches.expire(now)
        self.complete_fetches(now)

    def complete_fetches(self, now: float) -> None:
        """Complete the fetches that waited for changes since the last call, where possible."""
        while self._changed:
            partition, _ = self._changed.popitem()
            self.fetches.check_and_complete(partition, now)
