"""Log truncation checks (KIP-320): a new leader confirms the records that were read, before further records are read.

A new leader may lack records of the previous one. Consumers may have read them, and its log is truncated before them.
The leader returns where the leader epoch of our last record ends in its own log (`net.leader_epochs`). Partitions that
need the same broker at the same time share a request. `FetchCursor.evaluate` interprets the response, and the fetcher
acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import SarameyaError, UnsupportedVersionError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.leader_epochs import RequestedEpoch, ask_epoch_ends
from sarameya.protocol.fetch.fetch_cursor import Nothing, Outcome, Redispatch


class EpochChecks:
    """Checks with the leaders of partitions. `on_outcome` gets each result: `Nothing` if no record is missing."""

    def __init__(
        self,
        pool: BrokerPool,
        start: Callable[..., None],
        on_outcome: Callable[[PartitionConsumer, int, int, Outcome], None],
    ) -> None:
        """Create the checks.

        Args:
            pool: Connections.
            start: Starts a function as a task.
            on_outcome: Called with the partition, the leader that answered, its epoch and the outcome.
        """
        self._pool = pool
        self._start = start
        self._on_outcome = on_outcome
        self._waiting: dict[int, dict[TopicPartition, tuple[PartitionConsumer, int]]] = {}

    def ask(self, consumer: PartitionConsumer, leader: int, leader_epoch: int) -> None:
        """Check the partition with this leader, which leads in `leader_epoch`."""
        if leader not in self._waiting:
            self._waiting[leader] = {}
            self._start(self._ask, leader)
        self._waiting[leader][consumer.partition] = (consumer, leader_epoch)

    async def _ask(self, leader: int) -> None:
        await trio.lowlevel.checkpoint()  # so that all partitions of this moment share the request
        asked = self._waiting.pop(leader)
        epochs = {tp: RequestedEpoch(consumer.cursor.last_epoch, epoch) for tp, (consumer, epoch) in asked.items()}
        try:
            ends = await ask_epoch_ends(self._pool, leader, epochs)
        except UnsupportedVersionError:
            outcomes: Mapping[TopicPartition, Outcome] = {
                tp: Nothing() for tp in asked
            }  # the broker does not know leader epochs
        except SarameyaError as error:
            outcomes = {tp: Redispatch(str(error)) for tp in asked}
        else:
            outcomes = {tp: asked[tp][0].cursor.evaluate(part) for tp, part in ends.items()}
        for partition, (consumer, leader_epoch) in asked.items():
            if not consumer.has_ended:
                outcome = outcomes.get(partition, Redispatch("missing in the response about leader epochs"))
                self._on_outcome(consumer, leader, leader_epoch, outcome)
