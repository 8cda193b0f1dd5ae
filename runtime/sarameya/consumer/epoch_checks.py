"""Whether a new leader's log is the one that has been read (KIP-320): asked before the partition is read on.

A leader that had not got all of the one before it makes an end to what others have read of that: it tells where the
leader epoch, in which was written what we read last, ends in its own log (`net.leader_epochs`). Partitions that come
for one broker at the same time share a request. What an answer means is `fetch_cursor.judge`'s, what is done about it
the fetcher's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import SarameyaError, UnsupportedVersionError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.leader_epochs import EpochAsked, ask_epoch_ends
from sarameya.protocol.fetch_cursor import Nothing, Outcome, Redispatch


class EpochChecks:
    """Asks leaders. `on_outcome` is told of each partition: Nothing where all is well."""

    def __init__(
        self,
        pool: BrokerPool,
        start: Callable[..., None],
        on_outcome: Callable[[PartitionConsumer, int, int, Outcome], None],
    ) -> None:
        """`start` runs a function as a task; `on_outcome` is also told which leader has been asked, and its epoch."""
        self._pool = pool
        self._start = start
        self._on_outcome = on_outcome
        self._waiting: dict[int, dict[TopicPartition, tuple[PartitionConsumer, int]]] = {}

    def ask(self, consumer: PartitionConsumer, leader: int, leader_epoch: int) -> None:
        """Ask this leader, which is one by this epoch, about what has been read of the partition."""
        if leader not in self._waiting:
            self._waiting[leader] = {}
            self._start(self._ask, leader)
        self._waiting[leader][consumer.partition] = (consumer, leader_epoch)

    async def _ask(self, leader: int) -> None:
        await trio.lowlevel.checkpoint()  # so that all which come now come along
        asked = self._waiting.pop(leader)
        epochs = {tp: EpochAsked(consumer.cursor.last_epoch, epoch) for tp, (consumer, epoch) in asked.items()}
        try:
            said = await ask_epoch_ends(self._pool, leader, epochs)
        except UnsupportedVersionError:
            outcomes: Mapping[TopicPartition, Outcome] = {tp: Nothing() for tp in asked}  # it knows nothing of epochs
        except SarameyaError as error:
            outcomes = {tp: Redispatch(str(error)) for tp in asked}
        else:
            outcomes = {tp: asked[tp][0].cursor.judge(part) for tp, part in said.items()}
        for partition, (consumer, leader_epoch) in asked.items():
            if not consumer.has_ended:
                outcome = outcomes.get(partition, Redispatch("left out of the answer about leader epochs"))
                self._on_outcome(consumer, leader, leader_epoch, outcome)
