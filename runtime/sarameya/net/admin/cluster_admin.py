"""Base of the admin clients in `group_admin.py` and `topic_admin.py`: connections, metadata, log offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import attrs
import trio

from sarameya.config import Config, IsolationLevel
from sarameya.errors import RequestTimeoutError, SarameyaError
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.net.broker_pool import BrokerPool, open_broker_pool
from sarameya.net.leader_epochs import RequestedEpoch, ask_epoch_ends
from sarameya.net.log_offsets import LogOffsetReader, LogOffsets
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.cluster.metadata import ClusterMetadata


class ClusterAdmin:
    """Base of the admin clients for groups and topics. Use it with `async with`.

    Entering raises ConnectError if no broker answers within `Config.bootstrap_timeout`, and ConfigError for a malformed
    address. Every method raises KafkaError (or a subclass) if the cluster refuses, and RetriesExhaustedError after
    `Config.retry_timeout` seconds of retries.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        config: Config,
        observer: Observer,
        transport: Transport | None = None,
    ) -> None:
        # Without `group_instance_id`: the coordinator would take this client's commits for that member's.
        self._config = attrs.evolve(config, group_instance_id=None)
        self._observer = observer
        self._backoff = Backoff.of(config)
        self._lifetime = self._run(bootstrap_servers, transport)
        self._pool: BrokerPool
        self._metadata: MetadataRefresher

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        try:
            await self._metadata.wait_for_topics(())  # no topics: wait until a broker answers
        except BaseException:
            await self._lifetime.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The block's exception propagates unchanged: through the nursery it would come out in a group.
        await self._lifetime.__aexit__(None, None, None)

    @asynccontextmanager
    async def _run(self, bootstrap_servers: Sequence[str] | str, transport: Transport | None) -> AsyncIterator[None]:
        async with (
            open_broker_pool(bootstrap_servers, self._config, self._observer, transport) as self._pool,
            trio.open_nursery() as nursery,
        ):
            self._metadata = MetadataRefresher(self._pool, self._config, self._observer)
            nursery.start_soon(self._metadata.run)
            yield
            nursery.cancel_scope.cancel()

    async def metadata(self, topics: Iterable[str]) -> ClusterMetadata:
        """Return fresh metadata of the cluster, including `topics`.

        Raises:
            RequestTimeoutError: No metadata arrived within `Config.request_timeout`.
            AuthenticationError: A broker refuses this client.
        """
        self._metadata.follow(topics)
        with self._pool.until_refused(), trio.move_on_after(self._config.request_timeout):
            return await self._metadata.refresh()
        raise RequestTimeoutError(f"no metadata in {self._config.request_timeout:g} s")

    async def metadata_of_all(self) -> ClusterMetadata:
        """Return fresh metadata with every topic of the cluster. Raises as `metadata` does."""
        self._metadata.follow_all()
        return await self.metadata(())

    async def log_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> LogOffsets:
        """Return the offset of each log at a timestamp. Pass the topics to `metadata` first.

        Failed lookups are retried a few times. For those that still fail, the result has the reason.

        Args:
            partitions: The logs.
            timestamp: LOG_START, LOG_END, or milliseconds since 1970. A time stands for the first message with this or
                a later timestamp.
            isolation_level: Defines LOG_END: the high watermark, or under `read_committed` the last stable offset.
        """
        reader = LogOffsetReader(self._pool, self._metadata, self._config, self._observer)
        return await reader.find(partitions, timestamp, isolation_level)

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the end of each leader epoch in the log of the partition's current leader (KIP-320).

        The end is the offset of the first record of a later epoch, or the log end. A partition is left out if its epoch
        is unknown (-1), if it has no leader, or if the broker is too old or cannot be reached. Pass the topics to
        `metadata` first.
        """
        metadata = self._metadata.current
        leaders: dict[int, dict[TopicPartition, RequestedEpoch]] = {}
        for partition, epoch in epochs.items():
            leader, known = metadata.leader(partition), metadata.partition(partition)
            if epoch > NO_LEADER_EPOCH and leader is not None and known is not None:
                leaders.setdefault(leader, {})[partition] = RequestedEpoch(epoch, known.leader_epoch)
        ends: dict[TopicPartition, int] = {}

        async def ask(leader: int, wanted: Mapping[TopicPartition, RequestedEpoch]) -> None:
            with suppress(SarameyaError):
                for partition, end in (await ask_epoch_ends(self._pool, leader, wanted)).items():
                    if not end.error_code and end.end_offset >= 0 and end.leader_epoch >= 0:
                        ends[partition] = end.end_offset

        async with trio.open_nursery() as nursery:
            for leader, wanted in leaders.items():
                nursery.start_soon(ask, leader, wanted)
        return ends
