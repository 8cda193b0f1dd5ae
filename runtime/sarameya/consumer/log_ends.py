"""Periodic lookup of the log ends of partitions that are not fetched, since they are paused or backpressured.

Without this lookup the lag of a stuck handler would seem constant, although it grows. Every `EVERY` seconds each leader
gets one request (two under `read_committed`) for those of its partitions that no fetch has named in that time. Without
such partitions no request is sent. Only observers use the result. A failed lookup is not retried before the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from sarameya.config import IsolationLevel
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.log_offsets import LOG_END, ask_leader, by_leader
from sarameya.net.metadata_refresher import MetadataRefresher

EVERY = 10.0
"""Seconds between two lookups."""

Unfetched = Callable[[float], Iterable[PartitionConsumer]]
"""Returns the partitions that no fetch has named since the given time, on trio's clock."""


class LogEnds:
    """Periodic lookup of log ends, while `run` runs."""

    def __init__(
        self, pool: BrokerPool, metadata: MetadataRefresher, isolation_level: IsolationLevel, unfetched: Unfetched
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._isolation_level: IsolationLevel = isolation_level
        self._unfetched = unfetched
        # Leaders with a pending request.
        self._pending: set[int] = set()

    async def run(self) -> None:
        """Look up until cancelled. A leader with a pending request gets no other, and delays no other leader."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(EVERY)
                consumers = {consumer.partition: consumer for consumer in self._unfetched_now()}
                wanted = dict.fromkeys(consumers, LOG_END)
                for leader, of_leader in by_leader(self._metadata.current, wanted).items():
                    if leader is not None and leader not in self._pending:
                        self._pending.add(leader)
                        nursery.start_soon(self._ask, leader, {tp: consumers[tp] for tp in of_leader})

    def _unfetched_now(self) -> Iterable[PartitionConsumer]:
        return self._unfetched(trio.current_time() - EVERY)

    async def _ask(self, leader: int, consumers: dict[TopicPartition, PartitionConsumer]) -> None:
        try:
            ends = await self._ends(leader, consumers, "read_uncommitted")
            stable = ends
            if self._isolation_level == "read_committed":
                stable = await self._ends(leader, consumers, "read_committed")
        finally:
            self._pending.discard(leader)
        unfetched = set(self._unfetched_now())  # a fetch since then has a newer result
        for partition in ends.keys() & stable.keys():
            if (consumer := consumers[partition]) in unfetched:
                consumer.source.log_ends(ends[partition], stable[partition])

    async def _ends(
        self, leader: int, partitions: Iterable[TopicPartition], level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, LOG_END)
        answers = await ask_leader(self._pool, self._metadata.current, leader, wanted, level)
        return {partition: place.offset for partition, place in answers.found.items()}
