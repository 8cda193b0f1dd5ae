"""Ends of leader epochs, looked up until they are known (`net.leader_epochs` sends the requests).

`epoch_checks` does the checks of claims, without this module.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError, UnsupportedVersionError, kafka_error
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.leader_epochs import EpochAsked, ask_epoch_ends
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff


@attrs.define(slots=True)
class _Round:
    """Results of one request to each leader. Partitions in neither mapping need another round."""

    ends: dict[TopicPartition, int | None] = attrs.field(factory=dict)
    missing: dict[TopicPartition, str] = attrs.field(factory=dict)
    """Reason for each missing result."""
    fatal: SarameyaError | None = None


class EpochLookup:
    """Lookup of the ends of leader epochs with the partitions' leaders. Follows leaders that move."""

    def __init__(self, pool: BrokerPool, metadata: MetadataRefresher, observer: Observer, backoff: Backoff) -> None:
        self._pool = pool
        self._metadata = metadata
        self._observer = observer
        self._backoff = backoff

    async def find(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the end of each leader epoch in the log of the partition's leader.

        That is the offset of the first record of a later epoch, or the log's end. If the log does not have the epoch,
        it is the end of the last earlier one that it has. Retries until all are known; bound it with a cancel scope.

        Args:
            epochs: Leader epoch to look up for each partition.

        Returns:
            The offsets; None for no epoch (-1), for a broker that is too old, and for a log with neither epoch.

        Raises:
            TopicAuthorizationError: Access to a topic is denied.
            RetriesExhaustedError: The user's bounds for retries are reached.
        """
        ends: dict[TopicPartition, int | None] = dict.fromkeys(epochs)
        wanted = {partition: epoch for partition, epoch in epochs.items() if epoch > NO_LEADER_EPOCH}
        retries = Retries("lookup of leader epochs", self._backoff, self._observer, kind="leader_epochs")
        while wanted:
            asked = await self._ask_leaders(wanted)
            if asked.fatal is not None:
                raise asked.fatal
            ends |= asked.ends
            wanted = {partition: epoch for partition, epoch in wanted.items() if partition in asked.missing}
            if wanted:
                partition = next(iter(wanted))
                await retries.wait(f"{partition}: {asked.missing[partition]}")
                await self._metadata.refresh()
        return ends

    async def _ask_leaders(self, wanted: Mapping[TopicPartition, int]) -> _Round:
        """Send the requests to all leaders at once."""
        asked, metadata, leaders = _Round(), self._metadata.current, dict[int, dict[TopicPartition, EpochAsked]]()
        for partition, epoch in wanted.items():
            leader, found = metadata.leader(partition), metadata.partition(partition)
            if leader is None or found is None:
                asked.missing[partition] = "the partition has no leader"
            else:
                leaders.setdefault(leader, {})[partition] = EpochAsked(epoch, found.leader_epoch)
        async with trio.open_nursery() as nursery:
            for leader, of_leader in leaders.items():
                nursery.start_soon(self._ask, leader, of_leader, asked)
        return asked

    async def _ask(self, leader: int, wanted: Mapping[TopicPartition, EpochAsked], asked: _Round) -> None:
        try:
            said = await ask_epoch_ends(self._pool, leader, wanted)
        except UnsupportedVersionError:
            asked.ends |= dict.fromkeys(wanted)
            return
        except SarameyaError as error:
            asked.missing |= dict.fromkeys(wanted, str(error))
            return
        for partition in wanted:
            if (part := said.get(partition)) is None:
                asked.missing[partition] = "missing in the response"
            elif part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                asked.fatal = kafka_error(part.error_code, f"lookup of leader epochs of {partition}")
            elif part.error_code:
                asked.missing[partition] = ErrorCode.describe(part.error_code)
            else:
                asked.ends[partition] = part.end_offset if part.end_offset >= 0 and part.leader_epoch >= 0 else None
