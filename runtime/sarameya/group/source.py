"""The interfaces that a session depends on: the member that assigns its partitions, and the source of their records.

A group's session gets its assignment from a `Member`, and reads from brokers (`source_from_brokers`).
`sarameya.testing.ClaimFeed`, which tests a handler without a broker, passes other implementations. All code between
these interfaces and the handler is the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.fetcher import FeedState, Fetcher
from sarameya.consumer.offset_lookup import Lookup, OffsetLookup
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.resets import Resets
from sarameya.group.delivery.interceptors import Interceptors
from sarameya.group.delivery.time_slices import HandlerTime
from sarameya.group.membership.notices import Notice
from sarameya.group.offsets.logs import Logs
from sarameya.group.offsets.offset_manager import Coordination, OffsetManager
from sarameya.group.runtime import Runtime
from sarameya.model import NO_LEADER_EPOCH, LogRange, TopicPartition
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.membership.messages import Event
from sarameya.protocol.subscription import Growth, Wanted


class SessionMember(Coordination, Protocol):
    """The member of a session, which assigns and revokes partitions: a group's `Member`."""

    @property
    def growth(self) -> Growth: ...

    @property
    def is_cooperative(self) -> bool: ...

    @property
    def notices(self) -> trio.MemoryReceiveChannel[Notice]: ...

    @property
    def wanted(self) -> Wanted | None: ...

    def post(self, event: Event) -> None:
        """Pass an event of the session to the membership."""


class SessionRuntime(Protocol):
    """The part of a `Runtime` that a session uses."""

    @property
    def group(self) -> str: ...

    @property
    def config(self) -> Config: ...

    @property
    def observer(self) -> Observer: ...

    @property
    def backoff(self) -> Backoff: ...

    @property
    def budget(self) -> ByteBudget: ...

    @property
    def interceptors(self) -> Interceptors: ...

    @property
    def handler_time(self) -> HandlerTime: ...

    @property
    def wall_clock(self) -> Callable[[], float]: ...


class LogReader(Protocol):
    """The reader of the logs, which delivers records to partition consumers: a `Fetcher`."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None: ...

    def stop(self) -> None: ...

    def release(self, consumers: Iterable[PartitionConsumer]) -> None: ...

    def feed(
        self,
        partition: TopicPartition,
        offset: int,
        last_epoch: int = NO_LEADER_EPOCH,
        lookup_epoch: int = NO_LEADER_EPOCH,
        topic_id: uuid.UUID | None = None,
    ) -> PartitionConsumer: ...

    def read(self, consumers: Iterable[PartitionConsumer]) -> None: ...

    def feed_state(self, consumer: PartitionConsumer) -> FeedState: ...


class LogFacts(Protocol):
    """Topic ids, offset ranges and leader epochs of the logs: `Logs`."""

    async def fetch_metadata(self, partitions: Iterable[TopicPartition]) -> None: ...

    def keep_ids(self, topics: Collection[str]) -> None: ...

    @property
    def cluster_id(self) -> str: ...

    def topic_id(self, topic: str) -> uuid.UUID | None: ...

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]: ...

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


@attrs.frozen(slots=True)
class Source:
    """The source of one session's records."""

    lookup: Lookup
    fetcher: LogReader
    logs: LogFacts


OpenSource = Callable[[OffsetManager], Source]
"""Opens a session's source. The offset manager moves its marks when positions are reset."""


def source_from_brokers(runtime: Runtime) -> OpenSource:
    """Return a function that opens the source of each of a group's sessions."""

    def open_source(offsets: OffsetManager) -> Source:
        config, observer, backoff = runtime.config, runtime.observer, runtime.backoff
        lookup = OffsetLookup(runtime.pool, runtime.metadata, config, observer, backoff, runtime.wall_clock)
        resets = Resets(lookup, config, observer, backoff, offsets.position_moved)
        fetcher = Fetcher(
            runtime.pool,
            runtime.metadata,
            resets,
            config,
            observer,
            backoff,
            runtime.budget,
            offsets.ledger.topic_recreated,
        )
        return Source(lookup, fetcher, Logs(runtime, lookup))

    return open_source
