"""The partitions led by one broker, fetched together: one task, one connection, one request at a time.

Owns which partitions are subscribed here. Hand-over never blocks the loop: a partition whose buffer is full, or
which is paused, is left out of the next fetch, and where that leaves none, none goes out. Whatever this broker
cannot serve goes back to the dispatcher (`fetcher.py`), which finds out where it belongs; on a lost connection that
is everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import trio
from kafka.protocol.consumer import FetchRequest

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.protocol.fetch_cursor import Failed, Nothing, OutOfRange, Records, Redispatch
from sarameya.protocol.transactions import ISOLATION_LEVELS

_NO_FETCH_SESSION = -1
"""The session epoch of a full fetch outside any fetch session (KIP-227)."""

GiveBack = Callable[[PartitionConsumer, Redispatch | OutOfRange], None]


class BrokerConsumer:
    """Fetches for its subscribed partitions until cancelled."""

    def __init__(self, node_id: int, pool: BrokerPool, config: Config, give_back: GiveBack) -> None:
        self.node_id = node_id
        self._pool = pool
        self._config = config
        self._give_back = give_back
        self._subscribed: dict[TopicPartition, PartitionConsumer] = {}
        self._changed = trio.Event()

    def subscribe(self, consumer: PartitionConsumer) -> None:
        """Take a partition on; it is in the next fetch that goes out."""
        self._subscribed[consumer.partition] = consumer
        consumer.on_change = self._wake
        self._wake()

    def unsubscribe(self, consumer: PartitionConsumer) -> None:
        """Let go of a partition, if it is here: an answer on its way is delivered to nobody."""
        if self._subscribed.get(consumer.partition) is consumer:
            del self._subscribed[consumer.partition]

    def unsubscribe_all(self) -> None:
        """Let go of every partition."""
        self._subscribed.clear()

    def _wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Fetch, hand over, again. Blocks while there is nothing to fetch for."""
        while True:
            self._changed = trio.Event()
            ready, held = self._choose(trio.current_time())
            if not ready or (held and all(consumer.found_nothing for consumer in ready)):
                await self._wait_for_room(held)
                continue
            asked = {consumer.partition: (consumer, consumer.cursor.position) for consumer in ready}
            try:
                # While a busy partition is about to have room again, nobody long-polls for the idle ones.
                answer = await self._fetch(ready, 0.0 if held else self._config.fetch_max_wait)
            except trio.Cancelled:
                # Whoever fetches here next would wait until the broker has answered this one.
                self._pool.close_connection(self.node_id, Purpose.FETCH)
                raise
            except SarameyaError as error:
                self._give_all_back(str(error))
            else:
                self._fan_out(answer, asked)

    def _choose(self, now: float) -> tuple[list[PartitionConsumer], list[PartitionConsumer]]:
        """Partitions to fetch, and those that may have room any moment (full, but not for long)."""
        patience = self._config.max_processing_time
        ready = [c for c in self._subscribed.values() if c.is_wanted]
        held = [c for c in self._subscribed.values() if c.is_held(now, patience)]
        return ready, held

    async def _wait_for_room(self, held: Sequence[PartitionConsumer]) -> None:
        """Until there is something else to choose from; no longer than `held` ones deserve patience."""
        with trio.CancelScope() as scope:
            if held:
                scope.deadline = min(c.full_since for c in held) + self._config.max_processing_time
            await self._changed.wait()

    async def _fetch(self, consumers: Iterable[PartitionConsumer], max_wait: float) -> Any:
        config = self._config
        partitions: dict[str, list[Any]] = {}
        for consumer in consumers:
            cursor = consumer.cursor
            partitions.setdefault(consumer.partition.topic, []).append(
                FetchRequest.FetchTopic.FetchPartition(
                    partition=consumer.partition.partition,
                    current_leader_epoch=cursor.leader_epoch,
                    fetch_offset=cursor.position,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=config.fetch_max_partition_bytes,
                )
            )
        return await self._pool.request(
            self.node_id,
            Purpose.FETCH,
            FetchRequest,
            config.request_timeout + max_wait,
            replica_id=-1,
            max_wait_ms=round(max_wait * 1000),
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=ISOLATION_LEVELS[config.isolation_level],
            session_id=0,
            session_epoch=_NO_FETCH_SESSION,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=ps) for topic, ps in partitions.items()],
            forgotten_topics_data=[],
            # A leader that is told a rack may name a nearer replica instead of sending records (KIP-392), to
            # whom nobody here would go.
            rack_id="",
        )

    def _fan_out(self, answer: Any, asked: dict[TopicPartition, tuple[PartitionConsumer, int]]) -> None:
        if answer.error_code:
            self._give_all_back(f"fetch: {ErrorCode.describe(answer.error_code)}")
            return
        unanswered = set(asked)
        for topic in answer.responses:
            for part in topic.partitions:
                partition = TopicPartition(topic.topic, part.partition_index)
                unanswered.discard(partition)
                consumer, position = asked.get(partition, (None, 0))
                # Let go of meanwhile, and perhaps taken on anew at another position: then this answers nobody.
                if consumer is not None and self._subscribed.get(partition) is consumer:
                    self._hand_over(consumer, part, position)
        for partition in unanswered & self._subscribed.keys():
            if self._subscribed[partition] is asked[partition][0]:
                self._give_back(self._subscribed.pop(partition), Redispatch("left out of the answer to a fetch"))

    def _hand_over(self, consumer: PartitionConsumer, part: Any, asked: int) -> None:
        outcome = consumer.cursor.take(part, asked)
        consumer.found_nothing = not isinstance(outcome, Records)
        if isinstance(outcome, Records | Nothing):
            consumer.attempts = None
        match outcome:
            case Records():
                consumer.deliver(outcome)
                # To the end of the line: where a fetch's size runs out, it runs out for another one next time.
                self._subscribed[consumer.partition] = self._subscribed.pop(consumer.partition)
            case Failed(error=error):
                del self._subscribed[consumer.partition]
                consumer.fail(error)
            case Redispatch() | OutOfRange():
                del self._subscribed[consumer.partition]
                self._give_back(consumer, outcome)

    def _give_all_back(self, cause: str) -> None:
        subscribed, self._subscribed = self._subscribed, {}
        for consumer in subscribed.values():
            self._give_back(consumer, Redispatch(cause))
