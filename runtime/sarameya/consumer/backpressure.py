"""Backpressure: a partition whose handler takes no messages is not fetched.

Every `Config.max_processing_time` seconds, `Backpressure` checks the handlers of partitions with buffered messages. If
a handler made no progress since the last check, its partition is not fetched until the buffer is empty (sarama's
MaxProcessingTime, except that no other partition waits). Each change is reported once.
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
    """The handler's progress at the last check; it differs once the handler goes on."""
    since: float
    """Time at which `pace` was first seen."""


class Backpressure:
    """Watchdog for the partitions passed to `watch`."""

    def __init__(self, max_processing_time: float, observer: Observer) -> None:
        self._interval = max_processing_time
        self._observer = observer
        self._watched: dict[PartitionConsumer, _Watched] = {}
        self._has_watched = trio.Event()

    def watch(self, consumer: PartitionConsumer) -> None:
        """Watch the partition: messages have been delivered to it."""
        if consumer not in self._watched and not consumer.is_backpressured:
            self._watched[consumer] = _Watched(consumer.pace(), trio.current_time())
            self._has_watched.set()

    async def run(self) -> None:
        """Check the watched partitions until cancelled."""
        while True:
            await self._has_watched.wait()
            await trio.sleep(self._interval)
            for consumer, watched in tuple(self._watched.items()):
                if consumer.has_ended or consumer.is_empty or self._hold_back_if_stalled(consumer, watched):
                    del self._watched[consumer]
            if not self._watched:
                self._has_watched = trio.Event()

    def _hold_back_if_stalled(self, consumer: PartitionConsumer, watched: _Watched) -> bool:
        """Hold the partition back if its handler made no progress for an interval. Return whether it is held back."""
        now, pace = trio.current_time(), consumer.pace()
        if pace != watched.pace or consumer.is_paused:
            watched.pace, watched.since = pace, now
        elif now - watched.since >= self._interval:
            self._observer(PartitionBackpressured(consumer.partition, consumer.share.held))
            consumer.hold_back(partial(self._report_end, consumer.partition))
            return True
        return False

    def _report_end(self, partition: TopicPartition, seconds: float) -> None:
        self._observer(BackpressureEnded(partition, seconds))
