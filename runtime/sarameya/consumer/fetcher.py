"""Which broker reads which partition: partition consumers and broker consumers, many to many.

Owns the broker consumers of a session and sends each partition to the one at its leader: at the start, and
again whenever a broker gives it back (leadership moved, connection lost). Other partitions go on meanwhile. A
partition without a leader waits and is looked for with backoff, visibly. Positions that are not in the log are
`resets.py`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from sarameya.config import Config
from sarameya.consumer.broker_consumer import BrokerConsumer
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.resets import Resets
from sarameya.errors import RetriesExhaustedError
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import LeaderChanged, Observer, Retrying
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.fetch_cursor import OutOfRange, Redispatch


class Fetcher:
    """Reads partitions from whoever leads them, while `run` runs."""

    def __init__(
        self,
        pool: BrokerPool,
        metadata: MetadataRefresher,
        resets: Resets,
        config: Config,
        observer: Observer,
        backoff: Backoff,
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._resets = resets
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._brokers: dict[int, BrokerConsumer] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the broker consumers and the dispatching until `stop`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def stop(self) -> None:
        """Stop reading now. Once this returns, nothing is delivered to any partition consumer any more."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        for broker in self._brokers.values():
            broker.unsubscribe_all()

    def release(self, consumers: Iterable[PartitionConsumer]) -> None:
        """Stop reading these now; each has ended. The others do not notice."""
        for consumer in consumers:
            for broker in self._brokers.values():
                broker.unsubscribe(consumer)

    def read(self, consumers: Iterable[PartitionConsumer]) -> None:
        """Begin to read these partitions, each from its cursor's position."""
        for consumer in consumers:
            leader = self._metadata.current.leader(consumer.partition)
            if leader is None:
                self._start(self._redispatch, consumer, "no leader is known")
            else:
                self._subscribe(consumer, leader)

    def _start(self, task: Callable[..., Awaitable[None]], *args: object) -> None:
        assert self._nursery is not None, "Fetcher.run is not running"
        self._nursery.start_soon(task, *args)

    def _subscribe(self, consumer: PartitionConsumer, leader: int) -> None:
        found = self._metadata.current.partition(consumer.partition)
        assert found is not None
        consumer.cursor.leader_epoch = found.leader_epoch
        broker = self._brokers.get(leader)
        if broker is None:
            broker = self._brokers[leader] = BrokerConsumer(leader, self._pool, self._config, self._taken_back)
            self._start(broker.run)
        broker.subscribe(consumer)

    def _taken_back(self, consumer: PartitionConsumer, why: Redispatch | OutOfRange) -> None:
        if isinstance(why, OutOfRange):
            self._start(self._reset, consumer)
        else:
            self._start(self._redispatch, consumer, why.cause)

    async def _redispatch(self, consumer: PartitionConsumer, cause: str) -> None:
        """Find the partition's leader anew, for as long as it takes."""
        before = self._metadata.current.leader(consumer.partition)
        self._observer(LeaderChanged(consumer.partition, before, None, cause))
        leader: int | None = None
        while leader is None:
            now = trio.current_time()
            attempts = consumer.attempts.again(cause) if consumer.attempts else Attempts.first(now, cause)
            consumer.attempts = attempts
            what = f"leader of {consumer.partition}"
            if self._backoff.gives_up(attempts, now):
                consumer.fail(RetriesExhaustedError(what, attempts.attempt, now - attempts.since, cause))
                return
            delay = self._backoff.delay(attempts.attempt)
            self._observer(Retrying(what, attempts.attempt, now - attempts.since, delay, cause))
            await trio.sleep(delay)
            leader = (await self._metadata.refresh()).leader(consumer.partition)
            # Released meanwhile, or stopped in the very turn in which this was woken.
            if consumer.has_ended:
                return
            cause = "no leader is known"
        self._observer(LeaderChanged(consumer.partition, before, leader, "found"))
        self._subscribe(consumer, leader)

    async def _reset(self, consumer: PartitionConsumer) -> None:
        """The position is not in the log."""
        if await self._resets.out_of_range(consumer):
            self.read([consumer])
