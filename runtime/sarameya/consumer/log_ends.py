"""Log ends of partitions that are not fetched for long, since they are paused or their handlers take nothing.

Without them the lag of a hanging handler would stand still, the opposite of the truth. One request for each leader (two
under `read_committed`) every `EVERY` seconds covers only partitions that no fetch has named in that time. Without such
partitions there is no request. The result serves observers only: a failed lookup changes nothing, and the next one
follows.
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
"""Returns the partitions that no fetch has named since a time, on trio's clock."""


class LogEnds:
    """Periodic lookup of log ends, while `run` runs."""

    def __init__(
        self, pool: BrokerPool, metadata: MetadataRefresher, isolation_level: IsolationLevel, unfetched: Unfetched
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._isolation_level: IsolationLevel = isolation_level
        self._unfetched = unfetched
        self._asked: set[int] = set()

    async def run(self) -> None:
        """Look up until cancelled. A leader that has not answered yet gets no second request, and delays no other."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(EVERY)
                consumers = {consumer.partition: consumer for consumer in self._since_last_look()}
                wanted = dict.fromkeys(consumers, LOG_END)
                for leader, of_leader in by_leader(self._metadata.current, wanted).items():
                    if leader is not None and leader not in self._asked:
                        self._asked.add(leader)
                        nursery.start_soon(self._ask, leader, {tp: consumers[tp] for tp in of_leader})

    def _since_last_look(self) -> Iterable[PartitionConsumer]:
        return self._unfetched(trio.current_time() - EVERY)

    async def _ask(self, leader: int, consumers: dict[TopicPartition, PartitionConsumer]) -> None:
        try:
            ends = await self._ends(leader, consumers, "read_uncommitted")
            stable = ends
            if self._isolation_level == "read_committed":
                stable = await self._ends(leader, consumers, "read_committed")
        finally:
            self._asked.discard(leader)
        still = set(self._since_last_look())  # a fetch since then has a newer result
        for partition in ends.keys() & stable.keys():
            if (consumer := consumers[partition]) in still:
                consumer.source.log_ends(ends[partition], stable[partition])

    async def _ends(
        self, leader: int, partitions: Iterable[TopicPartition], level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, LOG_END)
        answers = await ask_leader(self._pool, self._metadata.current, leader, wanted, level)
        return {partition: place.offset for partition, place in answers.found.items()}
