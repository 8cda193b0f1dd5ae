"""Dispatching of partitions to brokers: each partition consumer is subscribed at one broker consumer.

The fetcher owns the broker consumers of a session. It subscribes each partition at the broker consumer of its leader,
or of a nearer replica that the leader names. It does so at the start, and again whenever a broker consumer returns a
partition (leadership moved, connection lost). Other partitions continue meanwhile. If a partition has no leader, the
fetcher refreshes metadata with backoff until it has one, and reports each retry. A new leader first confirms the
records that were read (`epoch_checks.py`). `resets.py` handles positions that are not in the log.

A rule that is easily broken:

- Fetching stops before feeds are closed (`Fetcher.stop` unsubscribes first), so that no late response is delivered to a
  closed feed.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.backpressure import Backpressure
from sarameya.consumer.broker_consumer import BrokerConsumer
from sarameya.consumer.epoch_checks import EpochChecks
from sarameya.consumer.log_ends import LogEnds
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.resets import Resets
from sarameya.errors import RetriesExhaustedError, TopicRecreatedError
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import LeaderChanged, Observer, ReadReplicaChanged, Retrying
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import (
    Elsewhere,
    Failed,
    FetchCursor,
    LeaseOver,
    NearerReplica,
    Nothing,
    Outcome,
    OutOfRange,
    Records,
    Redispatch,
    Truncated,
)
from sarameya.status import Activity


@attrs.frozen(slots=True)
class FeedState:
    """Present state of a partition's feed."""

    activity: Activity
    """FETCHING, RETRYING or RESETTING."""
    since: float = -math.inf
    """Start of the activity, on trio's clock."""
    reason: str = ""
    attempt: int = 0
    broker: int = -1
    """Node id of the broker that it is fetched from; -1 if there is none."""
    answered_at: float | None = None
    """Time of that broker's last response to a fetch, on trio's clock."""


class Fetcher:
    """Fetches partitions from their leaders, or from nearer replicas, while `run` runs."""

    def __init__(
        self,
        pool: BrokerPool,
        metadata: MetadataRefresher,
        resets: Resets,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        budget: ByteBudget,
        on_recreated: Callable[[TopicPartition], None],
    ) -> None:
        """Create a fetcher without partitions.

        Args:
            pool: Connections.
            metadata: Cluster metadata.
            resets: Handles positions that are not in the log.
            config: Fetch settings.
            observer: Receives events.
            backoff: Delays between retries.
            budget: Byte budget of the member.
            on_recreated: Called with each partition whose topic was deleted and created again.
        """
        self._pool = pool
        self._metadata = metadata
        self._resets = resets
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._budget = budget
        self._on_recreated = on_recreated
        self._backpressure = Backpressure(config.max_processing_time, observer)
        self._ends = LogEnds(pool, metadata, config.isolation_level, self._unfetched)
        self._checks = EpochChecks(pool, self._start, self._on_checked)
        self._brokers: dict[int, BrokerConsumer] = {}
        # Partitions whose leader is searched for, by reason of the search.
        self._leaderless: dict[str, list[PartitionConsumer]] = {}
        self._reset_scopes: dict[PartitionConsumer, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the broker consumers and the dispatching until `stop`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._backpressure.run)
            nursery.start_soon(self._ends.run)
            task_status.started()
            await self._watch_metadata()

    def stop(self) -> None:
        """Stop reading. Nothing is delivered to a partition consumer after this returns."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        for broker in self._brokers.values():
            broker.unsubscribe_all()

    def release(self, consumers: Iterable[PartitionConsumer]) -> None:
        """Stop reading these partitions, whose feeds have ended. Other partitions continue."""
        for consumer in consumers:
            for broker in self._brokers.values():
                broker.unsubscribe(consumer)
            if (scope := self._reset_scopes.get(consumer)) is not None:
                scope.cancel()

    def feed(
        self,
        partition: TopicPartition,
        offset: int,
        last_epoch: int = NO_LEADER_EPOCH,
        lookup_epoch: int = NO_LEADER_EPOCH,
        topic_id: uuid.UUID | None = None,
    ) -> PartitionConsumer:
        """Create the feed of a partition. Call `read` to start it.

        Args:
            partition: The partition.
            offset: Start offset.
            last_epoch: Leader epoch of the record before it.
            lookup_epoch: Epoch of the leader that has just returned the offset, if it was looked up.
            topic_id: Id of the intended topic; None for the topic that has this name now.
        """
        config = self._config
        cursor = FetchCursor(partition, offset, last_epoch, lookup_epoch, topic_id, config.check_crcs)
        return PartitionConsumer(cursor, config.channel_buffer_fetches, self._budget.open())

    def read(self, consumers: Iterable[PartitionConsumer]) -> None:
        """Start reading these partitions, each from its cursor's position."""
        for consumer in consumers:
            leader = self._metadata.current.leader(consumer.partition)
            if leader is None:
                self._redispatch(consumer, "no leader is known")
            else:
                self._subscribe(consumer, leader)

    def feed_state(self, consumer: PartitionConsumer) -> FeedState:
        """Return the present state of this feed."""
        if consumer in self._reset_scopes:
            return FeedState(Activity.RESETTING, reason="the position is not in the log")
        broker = next((broker for broker in self._brokers.values() if broker.reads(consumer)), None)
        node_id, answered_at = (-1, None) if broker is None else (broker.node_id, broker.answered_at)
        attempts = consumer.source.attempts or (broker.early_responses if broker is not None else None)
        if attempts is not None:
            return FeedState(Activity.RETRYING, attempts.since, attempts.cause, attempts.attempt, node_id, answered_at)
        if broker is None:
            return FeedState(Activity.RETRYING, reason="looking for its leader")
        return FeedState(Activity.FETCHING, broker=node_id, answered_at=answered_at)

    def _unfetched(self, since: float) -> Iterable[PartitionConsumer]:
        return [consumer for broker in self._brokers.values() for consumer in broker.unfetched(since)]

    def _start(self, task: Callable[..., Awaitable[None]], *args: object) -> None:
        assert self._nursery is not None, "Fetcher.run is not running"
        self._nursery.start_soon(task, *args)

    def _subscribe(self, consumer: PartitionConsumer, leader: int) -> None:
        """Read from this leader, once it is known that its log has the records that were read until now."""
        if self._fail_if_recreated(consumer):
            return
        cursor, found = consumer.cursor, self._metadata.current.partition(consumer.partition)
        assert found is not None
        if cursor.is_ahead_of(found.leader_epoch) and not self._has_searched_long(consumer):
            epochs = f"leader epoch {found.leader_epoch}, and offset {cursor.position} was committed"
            self._redispatch(consumer, f"metadata is out of date: it has {epochs} in epoch {cursor.last_epoch}")
            return
        if cursor.is_to_be_checked(found.leader_epoch):
            self._checks.ask(consumer, leader, found.leader_epoch)
            return
        cursor.leader_epoch = found.leader_epoch
        self._read_from(consumer, leader)

    def _has_searched_long(self, consumer: PartitionConsumer) -> bool:
        """Return whether metadata has been refreshed for so long (`request_timeout`) that it cannot be stale.

        Then the committed leader epoch may belong to a deleted topic of the same name.
        """
        attempts = consumer.source.attempts
        return attempts is not None and trio.current_time() - attempts.since >= self._config.request_timeout

    def _read_from(self, consumer: PartitionConsumer, node_id: int) -> None:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = self._brokers[node_id] = BrokerConsumer(
                node_id,
                self._pool,
                self._config,
                self._observer,
                self._backoff,
                self._budget,
                self._on_returned,
                self._backpressure.watch,
            )
            self._start(broker.run)
        broker.subscribe(consumer)

    def _on_checked(self, consumer: PartitionConsumer, leader: int, leader_epoch: int, outcome: Outcome) -> None:
        match outcome:
            case Nothing() | Records():
                consumer.cursor.leader_epoch = leader_epoch
                self.read([consumer])  # the leader may have changed meanwhile
            case Failed(error=error):
                consumer.fail(error)
            case _:
                self._on_returned(consumer, outcome)

    def _on_returned(self, consumer: PartitionConsumer, reason: Elsewhere) -> None:
        was_nearer = consumer.source.leave_replica()
        match reason:
            case LeaseOver():
                self.read([consumer])
            case NearerReplica() | Redispatch() | OutOfRange() if was_nearer:
                # A follower may have less of the log than its leader. Without the lease, the leader would name this
                # follower again at the next fetch.
                consumer.source.use(None, trio.current_time() + self._config.metadata_max_age)
                cause = reason.cause if isinstance(reason, Redispatch) else "it does not have the position"
                self._observer(ReadReplicaChanged(consumer.partition, None, cause))
                self.read([consumer])
            case NearerReplica(node_id=node_id):
                self._read_from_replica(consumer, node_id)
            case Truncated():
                self._start(self._reset_truncated, consumer, reason)
            case OutOfRange():
                self._start(self._reset, consumer)
            case Redispatch(cause=cause):
                self._redispatch(consumer, cause)

    def _read_from_replica(self, consumer: PartitionConsumer, node_id: int) -> None:
        """Read from this replica for `metadata_max_age` (KIP-392), unless its address is unknown."""
        until = trio.current_time() + self._config.metadata_max_age
        if node_id not in self._metadata.current.brokers:
            consumer.source.use(None, until)
            self._metadata.request_refresh()
            self.read([consumer])
            return
        consumer.source.use(node_id, until)
        self._observer(ReadReplicaChanged(consumer.partition, node_id, "the leader reports it as the nearer replica"))
        self._read_from(consumer, node_id)

    # -- changes that only metadata reports -----------------------------------------------------------

    async def _watch_metadata(self) -> None:
        """Compare the partitions with new metadata.

        If a fetch names a topic by its name, the broker does not report that the topic was deleted and created again. A
        former leader that is cut off from the other brokers does not report that it has been replaced.
        """
        while True:
            await self._metadata.next()
            for broker in tuple(self._brokers.values()):
                for consumer in broker.subscribed:
                    if self._fail_if_recreated(consumer):
                        broker.unsubscribe(consumer)
                    elif (leader := self._later_leader(consumer)) not in (None, broker.node_id):
                        broker.unsubscribe(consumer)
                        self._observer(LeaderChanged(consumer.partition, broker.node_id, leader, "metadata reports it"))
                        self._subscribe(consumer, leader)

    def _later_leader(self, consumer: PartitionConsumer) -> int | None:
        """Return the partition's leader if it leads in a later epoch than the epoch that is read, otherwise None.

        Also None while the partition is read from a follower.
        """
        metadata = self._metadata.current
        found = metadata.partition(consumer.partition)
        is_later = found is not None and found.leader_epoch > consumer.cursor.leader_epoch
        return metadata.leader(consumer.partition) if is_later and consumer.source.replica is None else None

    def _fail_if_recreated(self, consumer: PartitionConsumer) -> bool:
        """Fail the claim if the topic was replaced by another of the same name. Return whether it was."""
        topic, cursor = self._metadata.current.topics.get(consumer.partition.topic), consumer.cursor
        if topic is None or topic.topic_id is None:
            return False
        before, cursor.topic_id = cursor.topic_id, topic.topic_id
        if before in (None, topic.topic_id):
            if before is None:
                consumer.on_change()  # requests use the id from now on
            return False
        self._on_recreated(consumer.partition)
        consumer.fail(TopicRecreatedError(consumer.partition, cursor.position, before, topic.topic_id))
        return True

    # -- finding the leader, and the position -------------------------------------------------------

    def _redispatch(self, consumer: PartitionConsumer, cause: str) -> None:
        """Find the partition's leader again. Partitions with the same cause are searched for together."""
        if cause not in self._leaderless:
            self._leaderless[cause] = []
            self._start(self._find_leaders, cause)
        self._leaderless[cause].append(consumer)

    async def _find_leaders(self, cause: str) -> None:
        await trio.lowlevel.checkpoint()  # collect all partitions that lose their leader at this moment
        leaderless = self._leaderless.pop(cause)
        before = {consumer: self._metadata.current.leader(consumer.partition) for consumer in leaderless}
        for consumer, leader in before.items():
            self._observer(LeaderChanged(consumer.partition, leader, None, cause))
        while leaderless := [consumer for consumer in leaderless if not consumer.has_ended]:
            leaderless = await self._wait_before_refresh(leaderless, cause)
            if not leaderless:
                return
            metadata, cause = await self._metadata.refresh(), "no leader is known"
            for consumer in tuple(leaderless):
                # Released meanwhile, or stopped in the same scheduler round in which this task was woken: has_ended.
                if not consumer.has_ended and (leader := metadata.leader(consumer.partition)) is not None:
                    leaderless.remove(consumer)
                    self._observer(LeaderChanged(consumer.partition, before[consumer], leader, "found"))
                    self._subscribe(consumer, leader)

    async def _wait_before_refresh(
        self, leaderless: Sequence[PartitionConsumer], cause: str
    ) -> list[PartitionConsumer]:
        """Wait before the next metadata refresh, for the delay of the partition with most attempts.

        Fails the partitions whose retries are exhausted, and returns the others.
        """
        now, waiting = trio.current_time(), []
        for consumer in leaderless:
            attempts = consumer.source.retry(now, cause)
            if self._backoff.gives_up(attempts, now):
                what, elapsed = f"leader of {consumer.partition}", now - attempts.since
                consumer.fail(RetriesExhaustedError(what, attempts.attempt, elapsed, cause))
            else:
                waiting.append((attempts, consumer))
        if waiting:
            attempts, first = max(waiting, key=lambda each: each[0].attempt)
            others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
            delay = self._backoff.delay(attempts.attempt)
            what = f"leader of {first.partition}{others}"
            self._observer(Retrying(what, attempts.attempt, now - attempts.since, delay, cause, kind="leader"))
            await trio.sleep(delay)
        return [consumer for _, consumer in waiting]

    async def _reset(self, consumer: PartitionConsumer) -> None:
        """Reset the position: it is not in the log."""
        with self._reset_scope(consumer):
            if await self._resets.out_of_range(consumer):
                self.read([consumer])

    async def _reset_truncated(self, consumer: PartitionConsumer, found: Truncated) -> None:
        """Reset the position: the log was truncated below it."""
        with self._reset_scope(consumer):
            if await self._resets.truncated(consumer, found):
                self.read([consumer])

    @contextmanager
    def _reset_scope(self, consumer: PartitionConsumer) -> Iterator[None]:
        """Run the body, the reset of one partition, in a cancel scope that `release` cancels."""
        with trio.CancelScope() as scope:
            self._reset_scopes[consumer] = scope
            try:
                yield
            finally:
                del self._reset_scopes[consumer]
