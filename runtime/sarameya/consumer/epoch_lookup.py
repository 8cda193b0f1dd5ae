"""Lookup of the ends of leader epochs, with retries (`net.leader_epochs` sends the requests).

The checks of claims (`epoch_checks`) do not use this module.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError, UnsupportedVersionError, kafka_error
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.leader_epochs import RequestedEpoch, ask_epoch_ends
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff


@attrs.define(slots=True)
class _Results:
    """Results of one request to each leader."""

    ends: dict[TopicPartition, int | None] = attrs.field(factory=dict)
    missing: dict[TopicPartition, str] = attrs.field(factory=dict)
    """Reason for each missing result; these partitions are requested again."""
    fatal: SarameyaError | None = None
    """An error that a retry would not change."""


class EpochLookup:
    """Lookup of the ends of leader epochs with the partitions' leaders. Follows leaders that move."""

    def __init__(self, pool: BrokerPool, metadata: MetadataRefresher, observer: Observer, backoff: Backoff) -> None:
        self._pool = pool
        self._metadata = metadata
        self._observer = observer
        self._backoff = backoff

    async def find(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the end of each leader epoch in the log of the partition's leader.

        The end of an epoch is the offset of the first record of a later epoch, or the log's end. If the log does not
        have the epoch, the result is the end of the last earlier epoch in the log. Retries until all are known; bound
        it with a cancel scope.

        Args:
            epochs: Leader epoch to look up for each partition.

        Returns:
            The offset for each partition. None if the requested epoch is -1 (no epoch), if the broker is too old to
            know, or if the log has neither this epoch nor an earlier one.

        Raises:
            TopicAuthorizationError: Access to a topic is denied.
            RetriesExhaustedError: The user's bounds for retries are reached.
        """
        ends: dict[TopicPartition, int | None] = dict.fromkeys(epochs)
        wanted = {partition: epoch for partition, epoch in epochs.items() if epoch > NO_LEADER_EPOCH}
        retries = Retries("lookup of leader epochs", self._backoff, self._observer, kind="leader_epochs")
        while wanted:
            results = await self._ask_leaders(wanted)
            if results.fatal is not None:
                raise results.fatal
            ends |= results.ends
            wanted = {partition: epoch for partition, epoch in wanted.items() if partition in results.missing}
            if wanted:
                partition = next(iter(wanted))
                await retries.wait(f"{partition}: {results.missing[partition]}")
                await self._metadata.refresh()
        return ends

    async def _ask_leaders(self, wanted: Mapping[TopicPartition, int]) -> _Results:
        """Send a request to each leader, all at the same time."""
        results, metadata, leaders = (
            _Results(),
            self._metadata.current,
            dict[int, dict[TopicPartition, RequestedEpoch]](),
        )
        for partition, epoch in wanted.items():
            leader, found = metadata.leader(partition), metadata.partition(partition)
            if leader is None or found is None:
                results.missing[partition] = "the partition has no leader"
            else:
                leaders.setdefault(leader, {})[partition] = RequestedEpoch(epoch, found.leader_epoch)
        async with trio.open_nursery() as nursery:
            for leader, of_leader in leaders.items():
                nursery.start_soon(self._ask, leader, of_leader, results)
        return results

    async def _ask(self, leader: int, wanted: Mapping[TopicPartition, RequestedEpoch], results: _Results) -> None:
        """Send the request to one leader, and add its answer to `results`."""
        try:
            answer = await ask_epoch_ends(self._pool, leader, wanted)
        except UnsupportedVersionError:
            results.ends |= dict.fromkeys(wanted)
            return
        except SarameyaError as error:
            results.missing |= dict.fromkeys(wanted, str(error))
            return
        for partition in wanted:
            if (part := answer.get(partition)) is None:
                results.missing[partition] = "missing in the response"
            elif part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                results.fatal = kafka_error(part.error_code, f"lookup of leader epochs of {partition}")
            elif part.error_code:
                results.missing[partition] = ErrorCode.describe(part.error_code)
            else:
                results.ends[partition] = part.end_offset if part.end_offset >= 0 and part.leader_epoch >= 0 else None
