"""Fetch loop for the partitions read from one broker: one task, one connection, one request at a time.

This class decides when to fetch, how much a fetch may bring, and how to handle the response. `subscriptions.py` decides
which partitions a fetch names. Delivery never blocks the loop. A fetch omits partitions that are paused or whose buffer
is full; if none remains, no fetch is sent. The next fetch is sent before any claim processes the last response, unless
that is small. Partitions that this broker cannot serve return to the dispatcher (`fetcher.py`), which finds their
broker; a lost connection returns all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.fetch_backoff import FetchBackoff
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.subscriptions import Subscriptions
from sarameya.error_codes import ErrorCode
from sarameya.errors import BatchTooLargeError, ResponseTooLargeError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.observe import FetchBufferFull, Observer
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import (
    Elsewhere,
    Failed,
    LeaseOver,
    NearerReplica,
    Nothing,
    Records,
    Redispatch,
)
from sarameya.protocol.fetch.fetch_request import FetchRequest
from sarameya.protocol.fetch.fetch_session import NO_SESSION_EPOCH, NO_SESSION_ID, FetchPlan
from sarameya.protocol.records.transactions import ISOLATION_LEVELS

_NEWEST_WITH_NAMES = 12
"""Newest version that names topics by name: from 13 on, Fetch uses ids (KIP-516)."""
_ANSWER_BYTES, _PARTITION_BYTES = 300, 400
"""Maximal bytes of a response, and of each partition in it, without records: names have at most 249 characters."""

_COLD_BYTES = 2**16
"""Maximal bytes of a fetch whose partitions had nothing last time (a larger first batch comes anyway)."""

_FEW_BYTES = 2**14
"""Size below which claims process a response before the next fetch: a consumer waits for messages that come singly."""
_NEIGHBOURS_WAIT = 0.005
"""Maximal seconds without a fetch of idle partitions, while a busy partition is about to have room again."""
_SHORT_SECONDS = 5.0
"""Seconds without any room in the budget after which an event reports it."""

_NO_SUCH_SESSION = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND})
_SESSION_BROKEN = frozenset({ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR})
"""Error codes of a whole response after which another session is started without a report: no record is lost."""

OnReturn = Callable[[PartitionConsumer, Elsewhere], None]


class BrokerConsumer:
    """Fetcher of the subscribed partitions of one broker. Runs until cancelled."""

    def __init__(
        self,
        node_id: int,
        pool: BrokerPool,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        budget: ByteBudget,
        on_return: OnReturn,
        on_delivery: Callable[[PartitionConsumer], None],
    ) -> None:
        """Create a consumer without partitions.

        Args:
            node_id: The broker.
            pool: Connections.
            config: Fetch sizes and waits.
            observer: Receives events.
            backoff: Delays after useless responses.
            budget: Byte budget of the member.
            on_return: Called with a partition that is no longer read here, and the reason.
            on_delivery: Called with a partition after records were delivered to it.
        """
        self.node_id = node_id
        self._pool = pool
        self._config = config
        self._budget = budget
        self._observer = observer
        self._on_return = on_return
        self._on_delivery = on_delivery
        self._subscriptions = Subscriptions()
        self._session = self._subscriptions.session
        # Partitions of a response that was too large because of at least one of them.
        self._suspects: list[TopicPartition] = []
        # Bytes of records in the last response.
        self._delivered = 0
        self.answered_at: float | None = None
        """Time of the last response to a fetch, on trio's clock; None before the first."""
        # Time since which no fetch is in flight; infinite while one is.
        self._idle_since = trio.current_time()
        self._fetch_backoff = FetchBackoff(node_id, config, observer, backoff)
        self._something = trio.Event()
        # Time since which the budget has nothing left for the wanted partitions; infinite while it has.
        self._short_since = math.inf
        self._is_short_reported = False

    @property
    def subscribed(self) -> tuple[PartitionConsumer, ...]:
        """Partitions that are read here."""
        return tuple(self._subscriptions)

    def reads(self, consumer: PartitionConsumer) -> bool:
        """Return whether this partition is read here."""
        return consumer in self._subscriptions

    def unfetched(self, since: float) -> Iterable[PartitionConsumer]:
        """Return the partitions that no fetch has named since that time."""
        is_idle = self._idle_since <= since
        return [each for each in self._subscriptions if is_idle or each.source.unfetched_since <= since]

    @property
    def early_responses(self) -> Attempts | None:
        """Empty responses in a row before `fetch_max_wait`, which delay the next fetch; None if there are none."""
        return self._fetch_backoff.attempts

    def subscribe(self, consumer: PartitionConsumer) -> None:
        """Add a partition to the next fetch."""
        self._subscriptions.add(consumer, trio.current_time())
        consumer.on_change = lambda: self._has_changed(consumer)
        self._has_changed(consumer)

    def unsubscribe(self, consumer: PartitionConsumer) -> None:
        """Remove a partition if it is read here. A response on its way is dropped."""
        if consumer in self._subscriptions:
            self._subscriptions.remove(consumer)

    def unsubscribe_all(self) -> None:
        """Remove every partition."""
        for consumer in self._subscriptions:
            self._subscriptions.remove(consumer)

    def _has_changed(self, consumer: PartitionConsumer) -> None:
        if self._subscriptions.changed(consumer):
            self._wake()

    def _wake(self) -> None:
        self._something.set()

    # -- the loop -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch and deliver, forever. Wait while no partition is to be fetched."""
        subscriptions, config = self._subscriptions, self._config
        while True:
            self._something = trio.Event()
            now = trio.current_time()
            self._end_leases(now)
            subscriptions.update_session(self._budget.fetch_size(config.fetch_max_partition_bytes), now)
            if self._suspects:
                await self._fetch_suspect()
                continue
            held = [c for c in subscriptions.holding if c.is_full_briefly(now, config.max_processing_time)]
            if not self._session.wanted or (held and not subscriptions.hot):
                if subscriptions.holding:  # they may get room when others release bytes
                    self._budget.notify_of_room(self._wake)
                await self._wait_for_room(held, _NEIGHBOURS_WAIT if self._session.wanted else math.inf)
                if self._something.is_set() or not self._session.wanted:
                    continue
            size = self._reserve()
            if not size:
                await self._wait_for_budget(now)
                continue
            self._short_since, self._is_short_reported = math.inf, False
            try:
                await self._fetch_all(size, self._max_wait(held), now)
            finally:
                self._budget.settle(size)

    def _end_leases(self, now: float) -> None:
        for consumer in self._subscriptions.expired(now):
            if consumer.source.replica is not None:
                self._return_partition(consumer, LeaseOver())

    def _max_wait(self, held: Sequence[PartitionConsumer]) -> float:
        """Return the seconds for which the broker may hold a fetch.

        0 while a busy partition is about to have room again: a long poll for idle ones must not delay it. Short while
        any partition is full, since its buffer could be empty before the poll ends.
        """
        config = self._config
        if held:
            return 0.0
        if any(consumer.is_full for consumer in self._subscriptions.holding):
            return min(config.fetch_max_wait, config.max_processing_time)
        return config.fetch_max_wait

    def _reserve(self) -> int:
        """Reserve the bytes of the next fetch in the budget, and return their number."""
        config, wanted, subscriptions = self._config, self._session.wanted, self._subscriptions
        size = subscriptions.fetch_size
        holding = [c.share for c in subscriptions.holding if c.partition in wanted]
        response_room = config.max_response_bytes - _ANSWER_BYTES - len(wanted) * _PARTITION_BYTES
        # Reserve little if little is expected: others can use the rest while the broker waits for records.
        least = max(min(size, _COLD_BYTES), config.fetch_min_bytes)
        likely = max(len(subscriptions.hot) * size, least)
        most = min(config.fetch_max_bytes, max(response_room, 1), likely, len(wanted) * size)
        return self._budget.reserve(most, len(wanted) - len(holding), holding)

    async def _wait_for_room(self, held: Sequence[PartitionConsumer], at_most: float = math.inf) -> None:
        """Wait until a partition changes or a lease ends, or a `held` partition is full for `max_processing_time`."""
        with trio.CancelScope() as scope:
            until = [consumer.source.lease_until for consumer in self._subscriptions.leased]
            if at_most < math.inf:
                until.append(trio.current_time() + at_most)
            if held:
                until.append(min(c.full_since for c in held) + self._config.max_processing_time)
            if until:
                scope.deadline = min(until)
            await self._something.wait()

    async def _wait_for_budget(self, now: float) -> None:
        """Wait until bytes are released. Report an event once that takes long."""
        self._budget.notify_of_room(self._wake)
        self._short_since = min(self._short_since, now)
        if self._is_short_reported:
            await self._wait_for_room(())
            return
        with trio.move_on_at(self._short_since + _SHORT_SECONDS) as patience:
            await self._wait_for_room(())
        if patience.cancelled_caught:
            self._is_short_reported = True
            self._observer(FetchBufferFull(self.node_id, self._budget.held, _SHORT_SECONDS))

    # -- requests ------------------------------------------------------------------------------------

    async def _fetch_all(self, size: int, max_wait: float, began: float) -> None:
        plan = self._session.plan()
        try:
            response = await self._fetch(plan, size, max_wait)
        except ResponseTooLargeError as error:
            self._session.begin_anew()
            self._suspects = list(self._session.wanted)
            await self._fetch_backoff.wait(
                f"the response exceeds max_response_bytes, so each partition is fetched alone: {error}"
            )
        except SarameyaError as error:
            self._return_all(str(error))
        else:
            self._delivered = 0
            self.answered_at = answered_at = self._idle_since
            is_useful = self._fan_out(plan, response)
            if 0 < self._delivered < _FEW_BYTES:
                # Claims process a small response before the next fetch wakes the broker, which may run on the same
                # processor. One checkpoint is not enough: woken tasks continue in any order.
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
            if is_useful or answered_at >= began + max_wait / 2:
                self._fetch_backoff.reset()
            else:
                await self._fetch_backoff.wait("an empty response before fetch_max_wait")

    async def _fetch_suspect(self) -> None:
        """Fetch one record batch of one partition, which may exceed the limit for responses."""
        partition = self._suspects.pop()
        consumer = self._subscriptions.get(partition)
        ask = self._session.wanted.get(partition)
        if consumer is None or ask is None:
            return
        try:
            asks = {partition: attrs.evolve(ask, max_bytes=1)}  # a first batch comes whole (KIP-74)
            response = await self._fetch(FetchPlan(NO_SESSION_ID, NO_SESSION_EPOCH, asks), 1, 0.0)
        except ResponseTooLargeError as error:
            self._subscriptions.remove(consumer)
            problem = f"the record batch does not fit in a response (max_response_bytes): {error}"
            consumer.fail(BatchTooLargeError(*partition, ask.position, problem))
        except SarameyaError as error:
            self._return_all(str(error))
        else:
            if response.error_code:
                self._return_all(f"fetch: {ErrorCode.describe(response.error_code)}")
                return
            for part in (part for topic in response.responses for part in topic.partitions):
                is_wanted = part.partition_index == partition.partition and consumer in self._subscriptions
                if is_wanted and self._deliver(consumer, part, ask.position):
                    self._fetch_backoff.reset()

    async def _fetch(self, plan: FetchPlan, size: int, max_wait: float) -> Any:
        config = self._config
        self._idle_since = math.inf
        try:
            return await self._pool.request(
                self.node_id,
                Purpose.FETCH,
                FetchRequest,
                config.request_timeout + max_wait,
                newest=None if self._subscriptions.names_by_id else _NEWEST_WITH_NAMES,
                plan=plan,
                max_wait_ms=round(max_wait * 1000),
                min_bytes=config.fetch_min_bytes,
                max_bytes=size,
                isolation_level=ISOLATION_LEVELS[config.isolation_level],
                # A leader that gets a rack may name a nearer replica instead of sending records (KIP-392). The rack
                # applies to all partitions of the request.
                rack_id="" if any(c.source.replica is None for c in self._subscriptions.leased) else config.rack_id,
            )
        except trio.Cancelled:
            # The next fetch on this connection would wait until the broker has answered this one.
            self._pool.close_connection(self.node_id, Purpose.FETCH)
            raise
        finally:
            self._idle_since = trio.current_time()

    # -- delivery -----------------------------------------------------------------------------------

    def _fan_out(self, plan: FetchPlan, response: Any) -> bool:
        """Deliver each partition's part of a response. Return whether the response was useful."""
        if response.error_code:
            if response.error_code in _NO_SUCH_SESSION and not plan.is_full:
                self._session.refused()
            elif response.error_code in _SESSION_BROKEN and not plan.is_full:
                self._session.begin_anew()
            else:
                self._return_all(f"fetch: {ErrorCode.describe(response.error_code)}")
            return True
        if plan.is_full and not response.responses and response.throttle_time_ms:
            self._session.refused()  # a quota is exhausted: the broker has read nothing and keeps no session
            return False
        self._session.answered(response.session_id)
        subscriptions, were_hot = self._subscriptions, self._subscriptions.reset_hot()
        answered: set[TopicPartition] = set()
        is_useful = False
        for topic in response.responses:
            name = subscriptions.topic(topic.topic_id) or topic.topic
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                consumer, ask = subscriptions.get(partition), self._session.known(partition)
                if consumer is not None and ask is not None and partition not in answered:
                    is_useful = self._deliver(consumer, part, ask.position) or is_useful
                elif ask is not None:
                    is_useful = True  # of a partition that was removed meanwhile: no later response repeats it
                answered.add(partition)
        for partition in were_hot:
            if partition not in answered and (consumer := subscriptions.get(partition)) is not None:
                consumer.source.found(records=False)
        if plan.is_full:
            for partition in plan.partitions:
                if partition not in answered and (consumer := subscriptions.get(partition)) is not None:
                    self._return_partition(consumer, Redispatch("missing in the response to a fetch"))
                    is_useful = True
        return is_useful

    def _deliver(self, consumer: PartitionConsumer, part: Any, asked: int) -> bool:
        """Deliver one partition's part of a response. Return whether it was useful, if only by a new log end."""
        cursor = consumer.cursor
        ends = cursor.high_water_mark, cursor.last_stable_offset
        outcome = cursor.take(part, asked)
        consumer.source.found(records=isinstance(outcome, Records))
        if isinstance(outcome, Records | Nothing):
            consumer.source.served()
        match outcome:
            case Records():
                consumer.deliver(outcome)
                self._delivered += outcome.size_bytes
                self._budget.record_batches(outcome.size_bytes, len(outcome.batches))
                self._subscriptions.changed(consumer)
                self._on_delivery(consumer)
            case Nothing():
                return asked != cursor.position or ends != (cursor.high_water_mark, cursor.last_stable_offset)
            case Failed(error=error):
                self._subscriptions.remove(consumer)
                consumer.fail(error)
            case NearerReplica(node_id=self.node_id):
                self._return_partition(consumer, Redispatch("the broker names itself as the nearer replica"))
            case _:
                self._return_partition(consumer, outcome)
        return True

    def _return_all(self, cause: str) -> None:
        self._session.begin_anew()
        for consumer in self._subscriptions:
            self._return_partition(consumer, Redispatch(cause))

    def _return_partition(self, consumer: PartitionConsumer, reason: Elsewhere) -> None:
        self._subscriptions.remove(consumer)
        self._on_return(consumer, reason)
