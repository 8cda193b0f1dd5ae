"""Where leader epochs end, for who has to know before it goes on: asks until it is told (`net.leader_epochs` has the
asking). What a claim has read is checked without it, by `epoch_checks`."""

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
    """What asking each leader once has brought; what is in neither has to be asked for again."""

    ends: dict[TopicPartition, int | None] = attrs.field(factory=dict)
    missing: dict[TopicPartition, str] = attrs.field(factory=dict)
    """Why nothing was told."""
    fatal: SarameyaError | None = None


class EpochLookup:
    """Asks the leaders of partitions for the ends of leader epochs; follows them when they move."""

    def __init__(self, pool: BrokerPool, metadata: MetadataRefresher, observer: Observer, backoff: Backoff) -> None:
        self._pool = pool
        self._metadata = metadata
        self._observer = observer
        self._backoff = backoff

    async def find(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Where each leader epoch ends in the log of the partition's leader: the offset of the first record of a later
        one, or the log's end. Where the log does not have the epoch, the end of the last one before it that it has.
        None where that cannot be told: of no epoch (-1), by a broker that is too old, or whose log has neither.

        Retries until all are told; bound it with a cancel scope. Raises TopicAuthorizationError, RetriesExhaustedError.
        """
        ends: dict[TopicPartition, int | None] = dict.fromkeys(epochs)
        wanted = {partition: epoch for partition, epoch in epochs.items() if epoch > NO_LEADER_EPOCH}
        retries = Retries("look-up of leader epochs", self._backoff, self._observer, kind="leader_epochs")
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
        """Ask all of them at once."""
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
                asked.missing[partition] = "left out of the answer"
            elif part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                asked.fatal = kafka_error(part.error_code, f"look-up of leader epochs of {partition}")
            elif part.error_code:
                asked.missing[partition] = ErrorCode.describe(part.error_code)
            else:
                asked.ends[partition] = part.end_offset if part.end_offset >= 0 and part.leader_epoch >= 0 else None
