"""The partitions read from one broker, fetched together: one task, one connection, one request at a time.

Owns which partitions are subscribed here, and the fetch session with the broker. Hand-over never blocks the loop: a
partition whose buffer is full, or which is paused, is left out of the next fetch, and where that leaves none, none
goes out. The next fetch is on the wire before any claim has had its turn at what the last one brought, unless that is
little. Whatever this broker cannot serve goes back to the dispatcher (`fetcher.py`), which finds out where it belongs;
on a lost connection that is everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.error_codes import ErrorCode
from sarameya.errors import BatchTooLargeError, ResponseTooLargeError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.observe import FetchBufferFull, Observer, Retrying
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.byte_budget import ByteBudget
from sarameya.protocol.fetch_cursor import Elsewhere, Failed, LeaseOver, NearerReplica, Nothing, Records, Redispatch
from sarameya.protocol.fetch_request import FetchRequest
from sarameya.protocol.fetch_session import NO_SESSION_EPOCH, NO_SESSION_ID, Ask, FetchPlan, FetchSession
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
        self._backoff = backoff
        self._give_back = give_back
        self._on_delivery = on_delivery
        self._subscribed: dict[TopicPartition, PartitionConsumer] = {}
        self._session = FetchSession()
        self._topics: dict[UUID, str] = {}
        # Only these are looked at before a fetch: who may have changed, who has anything that is being taken (so that
        # its room depends on the budget), who reads from here, or no nearer, for a time only.
        self._changed: dict[PartitionConsumer, None] = {}
        self._holding: dict[PartitionConsumer, None] = {}
        self._leased: dict[PartitionConsumer, None] = {}
        self._without_topic_id: dict[PartitionConsumer, None] = {}
        # Wanted, and likely to have something.
        self._hot: dict[TopicPartition, None] = {}
        # One of these has made an answer too large.
        self._suspects: list[TopicPartition] = []
        self._fetch_size = 0
        # Bytes of records, by the last answer.
        self._delivered = 0
        self._names_by_id = True
        self.answered_at: float | None = None
        """When it has last answered a fetch, on trio's clock; None before that."""
        # Since when there is no fetch on its way; infinite while there is.
        self._idle_since = trio.current_time()
        self._hurried: Attempts | None = None
        self._something = trio.Event()
        # Since when there is nothing left of the budget for whoever is wanted here.
        self._short_since = math.inf
        self._is_told_short = False

    @property
    def subscribed(self) -> tuple[PartitionConsumer, ...]:
        """Whose partitions are read here."""
        return tuple(self._subscribed.values())

    def reads(self, consumer: PartitionConsumer) -> bool:
        """Whether this partition is read here."""
        return self._subscribed.get(consumer.partition) is consumer

    def unfetched(self, since: float) -> Iterable[PartitionConsumer]:
        """Those of these partitions that no fetch has asked for since then."""
        is_idle = self._idle_since <= since
        return [one for one in self._subscribed.values() if is_idle or one.unfetched_since <= since]

    @property
    def hurried(self) -> Attempts | None:
        """How often it has answered in a hurry, and with nothing, so that the next fetch is put off; None if it has
        not."""
        return self._hurried

    def subscribe(self, consumer: PartitionConsumer) -> None:
        """Take a partition on; it is in the next fetch that goes out."""
        self._subscribed[consumer.partition] = consumer
        if self._session.told(consumer.partition) is not None:
            # The broker would say nothing of it before there is something that is new to who was here before.
            self._session.begin_anew()
        consumer.on_change = lambda: self._has_changed(consumer)
        if consumer.lease_until > trio.current_time():
            self._leased[consumer] = None
        self._has_changed(consumer)

    def unsubscribe(self, consumer: PartitionConsumer) -> None:
        """Let go of a partition, if it is here: an answer on its way is delivered to nobody."""
        if self._subscribed.get(consumer.partition) is consumer:
            self._let_go(consumer)

    def unsubscribe_all(self) -> None:
        """Let go of every partition."""
        for consumer in tuple(self._subscribed.values()):
            self._let_go(consumer)

    def _let_go(self, consumer: PartitionConsumer) -> None:
        del self._subscribed[consumer.partition]
        for those in (self._changed, self._holding, self._leased, self._without_topic_id):
            those.pop(consumer, None)
        self._want_no_more(consumer.partition)

    def _want_no_more(self, partition: TopicPartition) -> None:
        self._session.drop(partition)
        self._hot.pop(partition, None)

    def _has_changed(self, consumer: PartitionConsumer) -> None:
        if self._subscribed.get(consumer.partition) is consumer:
            self._changed[consumer] = None
            self._wake()

    def _wake(self) -> None:
        self._something.set()

    # -- the loop -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch, hand over, again. Blocks while there is nothing to fetch for."""
        while True:
            self._something = trio.Event()
            now = trio.current_time()
            self._end_leases(now)
            self._settle(now)
            if self._suspects:
                await self._fetch_suspect()
                continue
            held = [c for c in self._holding if c.is_held(now, self._config.max_processing_time)]
            if not self._session.wanted or (held and not self._hot):
                if self._holding:  # whose room may come from what others give back
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

    def _settle(self, now: float) -> None:
        """Say to the session what is wanted now."""
        size = self._budget.fetch_size(self._config.fetch_max_partition_bytes)
        again = self._changed | self._holding
        for consumer in again:
            self._note_topic_id(consumer)
        names_by_id = not self._without_topic_id
        if names_by_id != self._names_by_id:
            self._session.begin_anew()  # what is called otherwise is something else to the broker
        if size != self._fetch_size or names_by_id != self._names_by_id:
            self._fetch_size, self._names_by_id = size, names_by_id
            again = dict.fromkeys(self._subscribed.values())
        self._changed, self._holding = {}, {}
        for consumer in again:
            cursor, partition = consumer.cursor, consumer.partition
            if consumer.share.held and not (consumer.is_paused or consumer.is_backpressured):
                self._holding[consumer] = None
            if not consumer.is_wanted:
                consumer.unfetched_since = min(consumer.unfetched_since, now)
                self._want_no_more(partition)
                continue
            consumer.unfetched_since = math.inf
            topic_id = cursor.topic_id if names_by_id else None
            self._session.put(partition, Ask(cursor.position, size, cursor.leader_epoch, topic_id))
            if not consumer.found_nothing:
                self._hot[partition] = None

    def _note_topic_id(self, consumer: PartitionConsumer) -> None:
        if (topic_id := consumer.cursor.topic_id) is None:
            self._without_topic_id[consumer] = None
        else:
            self._without_topic_id.pop(consumer, None)
            self._topics[topic_id] = consumer.partition.topic

    def _end_leases(self, now: float) -> None:
        for consumer in tuple(self._leased):
            if consumer.lease_until <= now:
                del self._leased[consumer]
                if consumer.replica is not None:
                    self._let_go(consumer)
                    self._give_back(consumer, LeaseOver())

    def _max_wait(self, held: Sequence[PartitionConsumer]) -> float:
        """For how long the broker may hold a fetch. While a busy partition is about to have room again, nobody
        long-polls for the idle ones; and not for long while one is full at all, or it might run dry meanwhile."""
        config = self._config
        if held:
            return 0.0
        if any(consumer.is_full for consumer in self._holding):
            return min(config.fetch_max_wait, config.max_processing_time)
        return config.fetch_max_wait

    def _reserve(self) -> int:
        """What the next fetch may bring, taken from the budget."""
        config, wanted = self._config, self._session.wanted
        holding = [c.share for c in self._holding if c.partition in wanted]
        holds = config.max_response_bytes - _ANSWER_BYTES - len(wanted) * _PARTITION_BYTES
        # Where little is expected, little is kept from others for as long as the broker may wait for something.
        least = max(min(self._fetch_size, _COLD_BYTES), config.fetch_min_bytes)
        likely = max(len(self._hot) * self._fetch_size, least)
        most = min(config.fetch_max_bytes, max(holds, 1), likely, len(wanted) * self._fetch_size)
        return self._budget.reserve(most, len(wanted) - len(holding), holding)

    async def _wait_for_room(self, held: Sequence[PartitionConsumer], at_most: float = math.inf) -> None:
        """Until there is something else to choose from; no longer than `held` ones deserve patience."""
        with trio.CancelScope() as scope:
            until = [consumer.lease_until for consumer in self._leased]
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
            await self._slow_down(f"larger than max_response_bytes, so each partition is asked for alone: {error}")
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
                self._hurried = None
            else:
                await self._slow_down("an answer that says nothing, before its time")

    async def _slow_down(self, cause: str) -> None:
        """Say why, and wait before the next fetch, which would be answered as fast, and with as little, as the last: no
        longer than the broker might have waited, since others may have something meanwhile."""
        now = trio.current_time()
        attempts = self._hurried = self._hurried.again(cause) if self._hurried else Attempts.first(now, cause)
        delay = min(self._backoff.delay(attempts.attempt), self._config.fetch_max_wait)
        self._observer(
            Retrying(
                f"fetch from broker {self.node_id}", attempts.attempt, now - attempts.since, delay, cause, kind="fetch"
            )
        )
        await trio.sleep(delay)

    async def _fetch_suspect(self) -> None:
        """Ask for one record batch of one partition, which may be larger than any answer may be."""
        partition = self._suspects.pop()
        consumer = self._subscribed.get(partition)
        ask = self._session.wanted.get(partition)
        if consumer is None or ask is None:
            return
        try:
            one = {partition: attrs.evolve(ask, max_bytes=1)}  # a first batch comes whole (KIP-74)
            answer = await self._fetch(FetchPlan(NO_SESSION_ID, NO_SESSION_EPOCH, one), 1, 0.0)
        except ResponseTooLargeError as error:
            self._let_go(consumer)
            problem = f"the record batch is larger than an answer may be (max_response_bytes): {error}"
            consumer.fail(BatchTooLargeError(*partition, ask.position, problem))
        except SarameyaError as error:
            self._give_all_back(str(error))
        else:
            if answer.error_code:
                self._give_all_back(f"fetch: {ErrorCode.describe(answer.error_code)}")
                return
            for part in (part for topic in answer.responses for part in topic.partitions):
                is_its = part.partition_index == partition.partition and self._subscribed.get(partition) is consumer
                if is_its and self._hand_over(consumer, part, ask.position):
                    self._hurried = None

    async def _fetch(self, plan: FetchPlan, size: int, max_wait: float) -> Any:
        config = self._config
        self._idle_since = math.inf
        try:
            return await self._pool.request(
                self.node_id,
                Purpose.FETCH,
                FetchRequest,
                config.request_timeout + max_wait,
                newest=None if self._names_by_id else _NEWEST_WITH_NAMES,
                plan=plan,
                max_wait_ms=round(max_wait * 1000),
                min_bytes=config.fetch_min_bytes,
                max_bytes=size,
                isolation_level=ISOLATION_LEVELS[config.isolation_level],
                # A leader that is told it may name a nearer replica instead of sending records (KIP-392), and it is
                # told for all its partitions at once.
                rack_id="" if any(c.replica is None for c in self._leased) else config.rack_id,
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
        cold = self._hot
        self._hot = {}
        answered: set[TopicPartition] = set()
        brought = False
        for topic in answer.responses:
            name = topic.topic or self._topics.get(topic.topic_id, "")
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                consumer, ask = self._subscribed.get(partition), self._session.told(partition)
                if consumer is not None and ask is not None and partition not in answered:
                    brought = self._hand_over(consumer, part, ask.position) or brought
                elif ask is not None:
                    brought = True  # for one that has gone meanwhile: it will not be answered for again
                answered.add(partition)
        for partition in cold.keys() - self._hot.keys():
            if partition in self._subscribed and partition not in answered:
                self._subscribed[partition].found_nothing = True
        if plan.is_full:
            for partition in plan.asks.keys() - answered & self._subscribed.keys():
                consumer = self._subscribed[partition]
                self._let_go(consumer)
                self._give_back(consumer, Redispatch("left out of the answer to a fetch"))
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
                self._changed[consumer] = None
                self._on_delivery(consumer)
            case Nothing():
                return asked != cursor.position or ends != (cursor.high_water_mark, cursor.last_stable_offset)
            case Failed(error=error):
                self._let_go(consumer)
                consumer.fail(error)
            case NearerReplica(node_id=self.node_id):
                self._let_go(consumer)
                self._give_back(consumer, Redispatch("the broker says that it is nearer than itself"))
            case _:
                self._let_go(consumer)
                self._give_back(consumer, outcome)
        return True

    def _give_all_back(self, cause: str) -> None:
        self._session.begin_anew()
        for consumer in tuple(self._subscribed.values()):
            self._let_go(consumer)
            self._give_back(consumer, Redispatch(cause))
