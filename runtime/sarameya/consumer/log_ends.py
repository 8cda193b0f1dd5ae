"""Where logs end of which no fetch tells: of partitions that are not fetched for long, since they are paused or since
their handlers take nothing.

A lag that stood still when its handler hangs would say the opposite of what is so. One request a leader (two under
`read_committed`), each `EVERY` seconds, for those partitions alone that no fetch has asked for in that time; none at
all where all are fetched. It is only for who watches: a look that fails changes nothing, and the next one asks again.
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
"""Seconds."""

Unfetched = Callable[[float], Iterable[PartitionConsumer]]
"""Those that no fetch has asked for since a time, on trio's clock."""


class LogEnds:
    """Looks them up while `run` runs."""

    def __init__(
        self, pool: BrokerPool, metadata: MetadataRefresher, isolation_level: IsolationLevel, unfetched: Unfetched
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._isolation_level: IsolationLevel = isolation_level
        self._unfetched = unfetched
        self._asked: set[int] = set()

    async def run(self) -> None:
        """Look, until cancelled. A leader that has not answered yet is not asked again, and holds up no other."""
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
        still = set(self._since_last_look())  # what has been fetched meanwhile is known better
        for partition in ends.keys() & stable.keys():
            if (consumer := consumers[partition]) in still:
                consumer.looked_up = ends[partition], stable[partition]

    async def _ends(
        self, leader: int, partitions: Iterable[TopicPartition], level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, LOG_END)
        answers = await ask_leader(self._pool, self._metadata.current, leader, wanted, level)
        return {partition: place.offset for partition, place in answers.found.items()}
