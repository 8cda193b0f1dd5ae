"""A fetcher that delivers a test's log to its claim, as a session's fetcher delivers fetch responses.

The fetcher decides when to fetch, up to which offset, and how to handle the outcome. Steps of the test's `FeedScript`
run when the handler requests more after all earlier messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Literal

import trio

from sarameya.config import Config
from sarameya.consumer.backpressure import Backpressure
from sarameya.consumer.fetcher import FeedState
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.resets import Resets
from sarameya.errors import SarameyaError
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.observe import Observer
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import Failed, FetchCursor, OutOfRange, Records
from sarameya.status import Activity
from sarameya.testing.feed_log import FeedLog
from sarameya.testing.feed_script import FeedScript


class _FeedConsumer(PartitionConsumer):
    """A partition consumer that counts the deliveries that the handler has not finished."""

    unfinished = 0

    def deliver(self, records: Records) -> None:
        self.unfinished += 1
        super().deliver(records)

    def taken(self, records: Records) -> None:
        self.unfinished -= 1
        super().taken(records)


class FeedFetcher:
    """The `LogReader` of a session with one claim."""

    def __init__(
        self,
        log: FeedLog,
        end: Callable[[], int],
        script: FeedScript,
        resets: Resets,
        config: Config,
        observer: Observer,
        budget: ByteBudget,
        on_step: Callable[[Literal["end", "lose"]], None],
        in_flight: Callable[[], int],
    ) -> None:
        self._log = log
        self._end = end
        self._script = script
        self._resets = resets
        self._config = config
        self._budget = budget
        self._on_step = on_step
        self._in_flight = in_flight
        self._backpressure = Backpressure(config.max_processing_time, observer)
        self._consumer: _FeedConsumer | None = None
        self._is_stopped = False
        self._changed = trio.Event()
        self._scope = trio.CancelScope()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver messages until `stop`."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._backpressure.run)
                task_status.started()
                while True:
                    self._changed = trio.Event()
                    if (consumer := self._consumer) is not None:
                        await self._serve(consumer)
                    await self._changed.wait()

    def wake(self) -> None:
        """Check again whether there is something to deliver."""
        self._changed.set()

    def stop(self) -> None:
        self._scope.cancel()
        self._consumer = None

    def release(self, consumers: Iterable[PartitionConsumer]) -> None:
        if self._consumer in list(consumers):
            self._consumer = None

    def feed(
        self,
        partition: TopicPartition,
        offset: int,
        last_epoch: int = NO_LEADER_EPOCH,
        lookup_epoch: int = NO_LEADER_EPOCH,
        topic_id: uuid.UUID | None = None,
    ) -> PartitionConsumer:
        cursor = FetchCursor(partition, offset, last_epoch, lookup_epoch, topic_id)
        return _FeedConsumer(cursor, self._config.channel_buffer_fetches, self._budget.open())

    def read(self, consumers: Iterable[PartitionConsumer]) -> None:
        for consumer in consumers:
            assert isinstance(consumer, _FeedConsumer), "the consumer is not from this feed"
            self._consumer = consumer
            consumer.on_change = consumer.on_idle = self.wake
        self.wake()

    def feed_state(self, consumer: PartitionConsumer) -> FeedState:
        return FeedState(Activity.FETCHING)

    async def _serve(self, consumer: _FeedConsumer) -> None:
        while consumer is self._consumer and consumer.is_wanted and not self._is_stopped:
            asked = consumer.cursor.position
            response = self._log.fetch(asked, self._config.fetch_max_bytes, self._script.limit(self._end()))
            match consumer.cursor.take(response, asked):
                case Records() as records:
                    consumer.deliver(records)
                    self._backpressure.watch(consumer)
                case OutOfRange():
                    if not await self._resets.out_of_range(consumer):
                        return
                case Failed(error=error):
                    self._fail(consumer, error)
                case _:
                    self._step(consumer)
                    return

    def _step(self, consumer: _FeedConsumer) -> None:
        """Run the next step. An error follows the delivered messages; other steps wait until these are finished."""
        match self._script.next:
            case SarameyaError() as error:
                self._script.done()
                self._fail(consumer, error)
            case "end" | "lose" as step if not consumer.unfinished and not self._in_flight():
                self._script.done()
                self._is_stopped = True
                self._on_step(step)

    def _fail(self, consumer: _FeedConsumer, error: SarameyaError) -> None:
        self._is_stopped = True
        consumer.fail(error)
