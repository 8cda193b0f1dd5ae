"""The partitions read from one broker, fetched together: one task, one connection, one request at a time.

Owns when a fetch goes out, how much it may bring, and what becomes of its answer; which partitions it names is
`subscriptions.py`'s. Hand-over never blocks the loop: a partition whose buffer is full, or which is paused, is left out
of the next fetch, and where that leaves none, none goes out. The next fetch is on the wire before any claim has had its
turn at what the last one brought, unless that is little. Whatever this broker cannot serve goes back to the dispatcher
(`fetcher.py`), which finds out where it belongs; on a lost connection that is everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.slowing_down import SlowingDown
from sarameya.consumer.subscriptions import Subscriptions
from sarameya.error_codes import ErrorCode
from sarameya.errors import BatchTooLargeError, ResponseTooLargeError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.observe import FetchBufferFull, Observer
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.byte_budget import ByteBudget
from sarameya.protocol.fetch_cursor import Elsewhere, Failed, LeaseOver, NearerReplica, Nothing, Records, Redispatch
from sarameya.protocol.fetch_request import FetchRequest
from sarameya.protocol.fetch_session import NO_SESSION_EPOCH, NO_SESSION_ID, FetchPlan
from sarameya.protocol.transactions import ISOLATION_LEVELS

_NEWEST_WITH_NAMES = 12
"""From 13 on, Fetch names topics by their ids (KIP-516)."""
_ANSWER_BYTES, _PARTITION_BYTES = 300, 400
"""The most that an answer, and each partition in it, takes beside records: names are 249 characters at most."""

_COLD_BYTES = 2**16
"""The most that a fetch may bring, beside a first batch that is larger, whose partitions had nothing the last time."""

_FEW_BYTES = 2**14
"""An answer that brings fewer is handed out before the next fetch: its messages have come alone, and are waited for."""
_NEIGHBOURS_WAIT = 0.005
"""Seconds at most that idle partitions are not asked for while a busy one is about to have room again."""
_SHORT_SECONDS = 5.0
"""Without any room in the budget for so long, it is told."""

_NO_SUCH_SESSION = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND})
_SESSION_BROKEN = frozenset({ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR})
"""Codes of an answer as a whole that begin another session, unsaid: nothing is lost by it."""

GiveBack = Callable[[PartitionConsumer, Elsewhere], None]


class BrokerConsumer:
    """Fetches for its subscribed partitions until cancelled."""

    def __init__(
        self,
        node_id: int,
        pool: BrokerPool,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        budget: ByteBudget,
        give_back: GiveBack,
        on_delivery: Callable[[PartitionConsumer], None],
    ) -> None:
        """`give_back` is told why a partition is not read here any more; `on_delivery` who was given records."""
        self.node_id = node_id
        self._pool = pool
        self._config = config
        self._budget = budget
        self._observer = observer
        self._give_back = give_back
        self._on_delivery = on_delivery
        self._subscriptions = Subscriptions()
        self._session = self._subscriptions.session
        # One of these has made an answer too large.
        self._suspects: list[TopicPartition] = []
        # Bytes of records, by the last answer.
        self._delivered = 0
        self.answered_at: float | None = None
        """When it has last answered a fetch, on trio's clock; None before that."""
        # Since when there is no fetch on its way; infinite while there is.
        self._idle_since = trio.current_time()
        self._slowing_down = SlowingDown(node_id, config, observer, backoff)
        self._something = trio.Event()
        # Since when there is nothing left of the budget for whoever is wanted here.
        self._short_since = math.inf
        self._is_told_short = False

    @property
    def subscribed(self) -> tuple[PartitionConsumer, ...]:
        """Whose partitions are read here."""
        return tuple(self._subscriptions)

    def reads(self, consumer: PartitionConsumer) -> bool:
        """Whether this partition is read here."""
        return consumer in self._subscriptions

    def unfetched(self, since: float) -> Iterable[PartitionConsumer]:
        """Those of these partitions that no fetch has asked for since then."""
        is_idle = self._idle_since <= since
        return [one for one in self._subscriptions if is_idle or one.unfetched_since <= since]

    @property
    def hurried(self) -> Attempts | None:
        """How often it has answered in a hurry, and with nothing, so that the next fetch is put off; None if it has
        not."""
        return self._slowing_down.attempts

    def subscribe(self, consumer: PartitionConsumer) -> None:
        """Take a partition on; it is in the next fetch that goes out."""
        self._subscriptions.add(consumer, trio.current_time())
        consumer.on_change = lambda: self._has_changed(consumer)
        self._has_changed(consumer)

    def unsubscribe(self, consumer: PartitionConsumer) -> None:
        """Let go of a partition, if it is here: an answer on its way is delivered to nobody."""
        if consumer in self._subscriptions:
            self._subscriptions.remove(consumer)

    def unsubscribe_all(self) -> None:
        """Let go of every partition."""
        for consumer in self._subscriptions:
            self._subscriptions.remove(consumer)

    def _has_changed(self, consumer: PartitionConsumer) -> None:
        if self._subscriptions.changed(consumer):
            self._wake()

    def _wake(self) -> None:
        self._something.set()

    # -- the loop -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch, hand over, again. Blocks while there is nothing to fetch for."""
        subscriptions, config = self._subscriptions, self._config
        while True:
            self._something = trio.Event()
            now = trio.current_time()
            self._end_leases(now)
            subscriptions.settle(self._budget.fetch_size(config.fetch_max_partition_bytes), now)
            if self._suspects:
                await self._fetch_suspect()
                continue
            held = [c for c in subscriptions.holding if c.is_held(now, config.max_processing_time)]
            if not self._session.wanted or (held and not subscriptions.hot):
                if subscriptions.holding:  # whose room may come from what others give back
                    self._budget.tell_of_room(self._wake)
                await self._wait_for_room(held, _NEIGHBOURS_WAIT if self._session.wanted else math.inf)
                if self._something.is_set() or not self._session.wanted:
                    continue
            size = self._reserve()
            if not size:
                await self._wait_for_budget(now)
                continue
            self._short_since, self._is_told_short = math.inf, False
            try:
                await self._fetch_all(size, self._max_wait(held))
            finally:
                self._budget.settle(size)

    def _end_leases(self, now: float) -> None:
        for consumer in self._subscriptions.expired(now):
            if consumer.replica is not None:
                self._give(consumer, LeaseOver())

    def _max_wait(self, held: Sequence[PartitionConsumer]) -> float:
        """For how long the broker may hold a fetch. While a busy partition is about to have room again, nobody
        long-polls for the idle ones; and not for long while one is full at all, or it might run dry meanwhile."""
        config = self._config
        if held:
            return 0.0
        if any(consumer.is_full for consumer in self._subscriptions.holding):
            return min(config.fetch_max_wait, config.max_processing_time)
        return config.fetch_max_wait

    def _reserve(self) -> int:
        """What the next fetch may bring, taken from the budget."""
        config, wanted, subscriptions = self._config, self._session.wanted, self._subscriptions
        size = subscriptions.fetch_size
        holding = [c.share for c in subscriptions.holding if c.partition in wanted]
        holds = config.max_response_bytes - _ANSWER_BYTES - len(wanted) * _PARTITION_BYTES
        # Where little is expected, little is kept from others for as long as the broker may wait for something.
        least = max(min(size, _COLD_BYTES), config.fetch_min_bytes)
        likely = max(len(subscriptions.hot) * size, least)
        most = min(config.fetch_max_bytes, max(holds, 1), likely, len(wanted) * size)
        return self._budget.reserve(most, len(wanted) - len(holding), holding)

    async def _wait_for_room(self, held: Sequence[PartitionConsumer], at_most: float = math.inf) -> None:
        """Until there is something else to choose from; no longer than `held` ones deserve patience."""
        with trio.CancelScope() as scope:
            until = [consumer.lease_until for consumer in self._subscriptions.leased]
            if at_most < math.inf:
                until.append(trio.current_time() + at_most)
            if held:
                until.append(min(c.full_since for c in held) + self._config.max_processing_time)
            if until:
                scope.deadline = min(until)
            await self._something.wait()

    async def _wait_for_budget(self, now: float) -> None:
        """Until something is given back; once that has taken long, it is told."""
        self._budget.tell_of_room(self._wake)
        self._short_since = min(self._short_since, now)
        if self._is_told_short:
            await self._wait_for_room(())
            return
        with trio.move_on_at(self._short_since + _SHORT_SECONDS) as patience:
            await self._wait_for_room(())
        if patience.cancelled_caught:
            self._is_told_short = True
            self._observer(FetchBufferFull(self.node_id, self._budget.held, _SHORT_SECONDS))

    # -- asking -------------------------------------------------------------------------------------

    async def _fetch_all(self, size: int, max_wait: float) -> None:
        plan, began = self._session.plan(), trio.current_time()
        try:
            answer = await self._fetch(plan, size, max_wait)
        except ResponseTooLargeError as error:
            self._session.begin_anew()
            self._suspects = list(self._session.wanted)
            await self._slowing_down.slow_down(
                f"larger than max_response_bytes, so each partition is asked for alone: {error}"
            )
        except SarameyaError as error:
            self._give_all_back(str(error))
        else:
            self._delivered = 0
            self.answered_at = self._idle_since
            brought = self._fan_out(plan, answer)
            if 0 < self._delivered < _FEW_BYTES:
                # What claims do with little is done sooner than the next fetch is sent, which also wakes the broker:
                # that may have the processor then. One checkpoint is not enough: woken tasks go on in any order.
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
            if brought or trio.current_time() >= began + max_wait / 2:
                self._slowing_down.over()
            else:
                await self._slowing_down.slow_down("an answer that says nothing, before its time")

    async def _fetch_suspect(self) -> None:
        """Ask for one record batch of one partition, which may be larger than any answer may be."""
        partition = self._suspects.pop()
        consumer = self._subscriptions.get(partition)
        ask = self._session.wanted.get(partition)
        if consumer is None or ask is None:
            return
        try:
            one = {partition: attrs.evolve(ask, max_bytes=1)}  # a first batch comes whole (KIP-74)
            answer = await self._fetch(FetchPlan(NO_SESSION_ID, NO_SESSION_EPOCH, one), 1, 0.0)
        except ResponseTooLargeError as error:
            self._subscriptions.remove(consumer)
            problem = f"the record batch is larger than an answer may be (max_response_bytes): {error}"
            consumer.fail(BatchTooLargeError(*partition, ask.position, problem))
        except SarameyaError as error:
            self._give_all_back(str(error))
        else:
            if answer.error_code:
                self._give_all_back(f"fetch: {ErrorCode.describe(answer.error_code)}")
                return
            for part in (part for topic in answer.responses for part in topic.partitions):
                is_its = part.partition_index == partition.partition and consumer in self._subscriptions
                if is_its and self._hand_over(consumer, part, ask.position):
                    self._slowing_down.over()

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
                # A leader that is told it may name a nearer replica instead of sending records (KIP-392), and it is
                # told for all its partitions at once.
                rack_id="" if any(c.replica is None for c in self._subscriptions.leased) else config.rack_id,
            )
        except trio.Cancelled:
            # Whoever fetches here next would wait until the broker has answered this one.
            self._pool.close_connection(self.node_id, Purpose.FETCH)
            raise
        finally:
            self._idle_since = trio.current_time()

    # -- handing over -------------------------------------------------------------------------------

    def _fan_out(self, plan: FetchPlan, answer: Any) -> bool:
        """Hand the answer over. Whether it brought anything."""
        if answer.error_code in _NO_SUCH_SESSION | _SESSION_BROKEN and not plan.is_full:
            if answer.error_code in _NO_SUCH_SESSION:
                self._session.refused()
            else:
                self._session.begin_anew()
            return True
        if answer.error_code:
            self._give_all_back(f"fetch: {ErrorCode.describe(answer.error_code)}")
            return True
        if plan.is_full and not answer.responses and answer.throttle_time_ms:
            self._session.refused()  # a quota is used up: nothing has been read, nor is there a session
            return False
        self._session.answered(answer.session_id)
        subscriptions, cold = self._subscriptions, self._subscriptions.cool()
        answered: set[TopicPartition] = set()
        brought = False
        for topic in answer.responses:
            name = topic.topic or subscriptions.topic(topic.topic_id)
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                consumer, ask = subscriptions.get(partition), self._session.told(partition)
                if consumer is not None and ask is not None and partition not in answered:
                    brought = self._hand_over(consumer, part, ask.position) or brought
                elif ask is not None:
                    brought = True  # for one that has gone meanwhile: it will not be answered for again
                answered.add(partition)
        for partition in cold:
            if partition not in answered and (consumer := subscriptions.get(partition)) is not None:
                consumer.found_nothing = True
        if plan.is_full:
            for partition in plan.asks:
                if partition not in answered and (consumer := subscriptions.get(partition)) is not None:
                    self._give(consumer, Redispatch("left out of the answer to a fetch"))
                    brought = True
        return brought

    def _hand_over(self, consumer: PartitionConsumer, part: Any, asked: int) -> bool:
        """Whether there was anything to hand over, if only news of the log's end."""
        cursor = consumer.cursor
        ends = cursor.high_water_mark, cursor.last_stable_offset
        outcome = cursor.take(part, asked)
        consumer.found_nothing = not isinstance(outcome, Records)
        if isinstance(outcome, Records | Nothing):
            consumer.attempts = None
            consumer.looked_up = (-1, -1)
        match outcome:
            case Records():
                consumer.deliver(outcome)
                self._delivered += outcome.size_bytes
                self._budget.came(outcome.size_bytes, len(outcome.batches))
                self._subscriptions.changed(consumer)
                self._on_delivery(consumer)
            case Nothing():
                return asked != cursor.position or ends != (cursor.high_water_mark, cursor.last_stable_offset)
            case Failed(error=error):
                self._subscriptions.remove(consumer)
                consumer.fail(error)
            case NearerReplica(node_id=self.node_id):
                self._give(consumer, Redispatch("the broker says that it is nearer than itself"))
            case _:
                self._give(consumer, outcome)
        return True

    def _give_all_back(self, cause: str) -> None:
        self._session.begin_anew()
        for consumer in self._subscriptions:
            self._give(consumer, Redispatch(cause))

    def _give(self, consumer: PartitionConsumer, why: Elsewhere) -> None:
        self._subscriptions.remove(consumer)
        self._give_back(consumer, why)
