"""A consumer of chosen partitions for asyncio programs."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from sarameya.asyncio.block import ThreadBlock
from sarameya.asyncio.claim import Claim
from sarameya.asyncio.marks import PostedMarks
from sarameya.asyncio.pausing import AsyncPausing
from sarameya.config import Config
from sarameya.group import standalone
from sarameya.group.delivery.interceptors import ConsumerInterceptor
from sarameya.group.offsets.start_offset import StartOffset
from sarameya.group.standalone_claims import CLOSED
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.offset_policy import OffsetPolicy


class Consumer(ThreadBlock, PostedMarks, AsyncPausing):
    """Consumer of chosen partitions, for asyncio: the same as `sarameya.Consumer`.

    Example::

        async with Consumer(["localhost:9092"]) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                async for message in claim:
                    ...

    The consumer lives in a thread of its own, from the beginning of the block to its end. Observers, interceptors,
    `wall_clock` and `Config.sasl_token` are called in that thread, where they must not block.

    Args:
        bootstrap_servers: HOST:PORT strings, or one string with commas between them.
        config: Options; those of the membership have no effect here.
        group_id: Id of the group whose committed offsets are used; None for no group.
        observers: Called with every event (see `sarameya.observe`).
        interceptors: Read or change messages before the claims return them (see `ConsumerInterceptor`).
        transport: Opens streams, with trio; TCP by default.
        rng: Jitters the delays of retries. With a fixed seed they are the same in every run.
        wall_clock: Returns the seconds since 1970. A start offset given as a duration counts back from this time.

    Raises:
        ConfigError: An address, the group id or an interceptor is invalid.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        config: Config | None = None,
        *,
        group_id: str | None = None,
        observers: Iterable[Observer] = (),
        interceptors: Sequence[ConsumerInterceptor] = (),
        transport: Transport | None = None,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._consumer = standalone.Consumer(
            bootstrap_servers,
            config,
            group_id=group_id,
            observers=observers,
            interceptors=interceptors,
            transport=transport,
            rng=rng,
            wall_clock=wall_clock,
        )
        PostedMarks.__init__(self, self._consumer)
        self._live_in(f"sarameya consumer {group_id or ''}".rstrip(), self._consumer, CLOSED)

    @property
    def group_id(self) -> str | None:
        """Id of the group whose committed offsets are used; None for no group."""
        return self._consumer.group_id

    @property
    def config(self) -> Config:
        """Options."""
        return self._consumer.config

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fetched and are not processed yet; 0 outside of the block.

        At most `Config.fetch_buffer_bytes`, and for each broker one record batch larger than requested.
        """
        return self._consumer.buffered_bytes

    @property
    def _pausing(self) -> standalone.Consumer:
        return self._consumer

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._use(self._consumer._ledger)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            self._use(self._consumer._ledger)

    async def topic_partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions, as the cluster reports them now.

        Raises:
            UnknownTopicError: The topic was not found within `Config.bootstrap_timeout` seconds.
            ConnectError: The cluster was not reached within that time.
            TopicAuthorizationError: The client may not describe the topic.
            ConfigError: `topic` is not a valid topic name.
        """
        return await self._portal.call(self._consumer.topic_partitions, topic)

    async def offsets(self, partitions: Iterable[TopicPartition], at: OffsetPolicy | int) -> dict[TopicPartition, int]:
        """Look up an offset in each log.

        Waits for partitions without a leader; bound the wait with `asyncio.timeout`. Raises as `topic_partitions` does.

        Args:
            partitions: The logs to search.
            at: `oldest` for the log start, `newest` for the offset of the next record, or a time: an aware datetime,
                milliseconds since 1970, or a timedelta before now.

        Returns:
            The offset in each log. For a time, it is the offset of the first message at or after that time, or the log
            end if there is no such message.
        """
        return await self._portal.call(self._consumer.offsets, partitions, at)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the group's committed offsets, from its coordinator; None for a partition without one.

        Raises:
            ConfigError: There is no `group_id`.
            GroupAuthorizationError: The client may not read the group.
            TopicAuthorizationError: The client may not read a topic.
        """
        return await self._portal.call(self._consumer.committed, partitions)

    @asynccontextmanager
    async def consume_partition(
        self, topic: str, partition: int, offset: StartOffset | None = None
    ) -> AsyncIterator[Claim]:
        """Read one partition for the length of a block, as `consume_partitions` does. The block gets the claim."""
        async with self.consume_partitions([TopicPartition(topic, partition)], offset) as claims:
            (claim,) = claims.values()
            yield claim

    @asynccontextmanager
    async def consume_partitions(
        self,
        partitions: Iterable[TopicPartition] | Mapping[TopicPartition, StartOffset | None],
        offset: StartOffset | None = None,
    ) -> AsyncIterator[Mapping[TopicPartition, Claim]]:
        """Read partitions for the length of a block, which gets a `Claim` for each.

        Marks only move forward, from the group's committed offset. To move the committed offset back, call
        `reset_offset`. At the end of the block the claims' iterators end; tasks that read them elsewhere are not
        cancelled.

        Args:
            partitions: The partitions; as a mapping, with the start offset of each.
            offset: Start offset of partitions without their own: an int, `oldest`, `newest`, a time (an aware
                datetime), a duration before now (a timedelta), or `committed`. `committed` means the group's committed
                offset or, if there is none, `Config.offset_initial`, which is then committed at once. The default is
                `committed` with a group id, else `Config.offset_initial`.

        Raises:
            UnknownTopicError: A topic or a partition does not exist.
            ConnectError: The cluster was not reached.
            ValueError: A partition is being read already, or a start offset is invalid.
            CommitError: The group has members.
            NoCommittedOffsetError: A partition has no committed offset, and `Config.offset_initial` is `fail`.
            TopicAuthorizationError: The client may not read a topic.
            GroupAuthorizationError: The client may not use the group.

        Later errors (an offset outside of the log, a corrupt record) are raised where the claim is read, and end only
        that claim.
        """
        portal, block = self._portal, self._consumer.consume_partitions(partitions, offset)
        try:
            claims = await portal.call(block.__aenter__)
        except asyncio.CancelledError:
            await portal.call(block.__aexit__, None, None, None)  # the block may have been entered nevertheless
            raise
        try:
            yield {partition: Claim(claim, portal) for partition, claim in claims.items()}
        finally:
            await portal.call(block.__aexit__, None, None, None)

    async def end(self, claim: Claim) -> None:
        """Stop reading this claim before the end of its block: its iterators end. Its marks are kept."""
        await self._portal.call_sync(self._consumer.end, claim._claim)

    async def commit(self) -> None:
        """Commit every mark made so far, and wait for the coordinator's response.

        Raises:
            CommitError: The group has members; only they may commit.
            GroupAuthorizationError: The client may not use the group.
            TopicAuthorizationError: The client may not read a topic. The other partitions are committed.
            KafkaError: The coordinator refused a partition. The others are committed.
            ConfigError: There is no `group_id`.
        """
        await self._portal.call(self._consumer.commit)
