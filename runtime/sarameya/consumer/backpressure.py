"""Detection of slow handlers: partitions whose fetched messages nobody takes.

Every `Config.max_processing_time` the handlers of partitions with buffered messages are checked. A handler without
progress since the last check is backpressured: its partition is not fetched until the buffer is empty (sarama's
MaxProcessingTime, except that no other partition waits). Each change is reported once. Without buffered messages
nothing is checked.
"""

from __future__ import annotations

from functools import partial

import attrs
import trio

from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.model import TopicPartition
from sarameya.observe import BackpressureEnded, Observer, PartitionBackpressured


@attrs.define(slots=True, eq=False)
class _Watched:
    pace: object
    since: float
    """Time at which `pace` was first seen."""


class Backpressure:
    """Watchdog for the partitions passed to `watch`."""

    def __init__(self, max_processing_time: float, observer: Observer) -> None:
        self._interval = max_processing_time
        self._observer = observer
        self._watched: dict[PartitionConsumer, _Watched] = {}
        self._something = trio.Event()

    def watch(self, consumer: PartitionConsumer) -> None:
        """Watch the partition: messages have been delivered to it."""
        if consumer not in self._watched and not consumer.is_backpressured:
            self._watched[consumer] = _Watched(consumer.pace(), trio.current_time())
            self._something.set()

    async def run(self) -> None:
        """Check the watched partitions until cancelled."""
        while True:
            await self._something.wait()
            await trio.sleep(self._interval)
            for consumer, watched in tuple(self._watched.items()):
                if consumer.has_ended or consumer.is_empty or self._has_fallen_behind(consumer, watched):
                    del self._watched[consumer]
            if not self._watched:
                self._something = trio.Event()

    def _has_fallen_behind(self, consumer: PartitionConsumer, watched: _Watched) -> bool:
        now, pace = trio.current_time(), consumer.pace()
        if pace != watched.pace or consumer.is_paused:
            watched.pace, watched.since = pace, now
        elif now - watched.since >= self._interval:
            self._observer(PartitionBackpressured(consumer.partition, consumer.share.held))
            consumer.hold_back(partial(self._drained, consumer.partition))
            return True
        return False

    def _drained(self, partition: TopicPartition, seconds: float) -> None:
        self._observer(BackpressureEnded(partition, seconds))
