"""The group coordinators of all brokers. Pure.

The leader of a group's partition of `__consumer_offsets` is its coordinator. When such a partition changes its leader,
the old coordinator unloads the groups. The new one loads them from the partition's log; anything that is not in the log
is lost. Loading takes `CoordinatorConfig.load_time`, and requests are answered COORDINATOR_LOAD_IN_PROGRESS meanwhile.
`cluster_state` knows the leaders.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.group_coordinator import GroupCoordinator
from sarameya.embedded.log.partition_log import LogAppendInfo
from sarameya.embedded.offsets_topic.offsets_journal import OffsetsJournal, read_groups, superseded
from sarameya.embedded.purgatory import DelayedOperation, Purgatory
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition

_COMPACT_FROM = 512
"""Batches in a partition before it is first compacted."""


class DelayedLoad(DelayedOperation):
    """The load of a partition's groups. It completes at its deadline, unless a leader change cancels it."""

    def __init__(
        self, deadline: float, partition: EmbeddedPartition, on_loaded: Callable[[EmbeddedPartition, float], None]
    ) -> None:
        super().__init__(deadline)
        self.partition = partition
        self.on_loaded = on_loaded

    def can_complete(self) -> bool:
        return False

    def on_complete(self, now: float) -> None:
        self.on_loaded(self.partition, now)


class Coordinators:
    """A group coordinator for each broker.

    Args:
        config: Settings of the coordinators.
        partition_of: Finds a group's partition of `__consumer_offsets`.
        append: Appends a batch to such a partition.
        wall_clock: Seconds since 1970.
        rng: Generates member ids.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        partition_of: Callable[[str], EmbeddedPartition],
        append: Callable[[EmbeddedPartition, bytes], LogAppendInfo],
        wall_clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._config = config
        self._partition_of = partition_of
        self._append = append
        self._wall_clock = wall_clock
        self._rng = rng
        self._by_node: dict[int, GroupCoordinator] = {}
        self._loads = Purgatory()
        self._loading: dict[TopicPartition, DelayedLoad] = {}
        self._compact_at: dict[TopicPartition, int] = {}

    def __getitem__(self, node_id: int) -> GroupCoordinator:
        return self._by_node[node_id]

    @property
    def node_ids(self) -> list[int]:
        """Ids of all brokers that have ever been up."""
        return sorted(self._by_node)

    def add(self, node_id: int) -> None:
        """Add a broker. Nothing changes if it was added before."""
        if node_id not in self._by_node:
            self._by_node[node_id] = GroupCoordinator(
                self._config,
                serves=lambda group_id: self._serves(node_id, group_id),
                journal=OffsetsJournal(self._partition_of, self._store, self._wall_clock),
                wall_clock=self._wall_clock,
                rng=self._rng,
            )

    def _serves(self, node_id: int, group_id: str) -> ErrorCode:
        partition = self._partition_of(group_id)
        if partition.leader != node_id:
            return ErrorCode.NOT_COORDINATOR
        loading = partition.topic_partition in self._loading
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE

    def is_loading(self, node_id: int) -> bool:
        """Return True while this broker loads groups, so that it does not know all of them."""
        return any(load.partition.leader == node_id for load in self._loading.values())

    # Leader changes of a partition of `__consumer_offsets`

    def unload_partition(self, partition: EmbeddedPartition, now: float) -> None:
        """Unload the groups of a partition from its leader. Held requests are answered NOT_COORDINATOR."""
        load = self._loading.pop(partition.topic_partition, None)
        if load is not None:
            self._loads.cancel(load)
        coordinator = self._by_node[partition.leader]
        for group in coordinator.list_groups():
            if self._partition_of(group.group_id) is partition:
                coordinator.unload(group.group_id, now)

    def load_partition(self, partition: EmbeddedPartition, now: float, load_time: float | None = None) -> None:
        """Load the groups of a partition into its new leader.

        Args:
            partition: The partition of `__consumer_offsets`.
            now: The current time.
            load_time: Seconds that loading takes; None: as configured.
        """
        load = DelayedLoad(now + (self._config.load_time if load_time is None else load_time), partition, self._load)
        self._loading[partition.topic_partition] = load
        self._loads.try_complete_else_watch(load, (), now)

    def _load(self, partition: EmbeddedPartition, now: float) -> None:
        del self._loading[partition.topic_partition]
        coordinator = self._by_node[partition.leader]
        for image in read_groups(partition.topic_partition, partition.log.batches()):
            coordinator.load(image, now)

    # Writing and compaction

    def _store(self, partition: EmbeddedPartition, batch: bytes) -> LogAppendInfo:
        appended = self._append(partition, batch)
        self._compact(partition)
        return appended

    def _compact(self, partition: EmbeddedPartition) -> None:
        """Remove replaced records when the log has doubled in batches since the last compaction."""
        name, log = partition.topic_partition, partition.log
        if log.batch_count >= self._compact_at.get(name, _COMPACT_FROM):
            log.remove_batches(superseded(name, log.batches()))
            self._compact_at[name] = max(_COMPACT_FROM, 2 * log.batch_count)

    def partitions_deleted(self, partitions: list[TopicPartition]) -> None:
        """Delete all commits for the partitions of a deleted topic."""
        for coordinator in self._by_node.values():
            coordinator.partitions_deleted(partitions)

    # Time

    def next_deadline(self) -> float | None:
        """Return the time of the next `handle_timer` call; None if nothing waits."""
        deadlines = [self._loads.next_deadline(), *(c.next_deadline() for c in self._by_node.values())]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Complete every load, and expire every operation, that is due."""
        self._loads.expire(now)
        for coordinator in self._by_node.values():
            coordinator.handle_timer(now)
