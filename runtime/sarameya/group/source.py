"""The interfaces that a session depends on: who assigns its partitions, and where their records come from.

A group's session gets its assignment from a `Member`, and reads from brokers (`of_brokers`). A test of a handler
without any (`sarameya.testing.ClaimFeed`) passes other implementations; everything between these and the handler is the
same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.fetcher import Feeding, Fetcher
from sarameya.consumer.offset_lookup import Lookup, OffsetLookup
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.resets import Resets
from sarameya.group.delivery.interceptors import Interceptors
from sarameya.group.delivery.time_slices import HandlerTime
from sarameya.group.offsets.logs import Logs
from sarameya.group.offsets.offset_manager import Coordination, OffsetManager
from sarameya.group.runtime import Runtime
from sarameya.group.session_machine.messages import Notice
from sarameya.model import NO_LEADER_EPOCH, LogRange, TopicPartition
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.membership.messages import Event
from sarameya.protocol.subscription import Growth, Wanted


class SessionMember(Coordination, Protocol):
    """Assigns partitions to the session and revokes them: a group's `Member`."""

    @property
    def growth(self) -> Growth: ...

    @property
    def is_cooperative(self) -> bool: ...

    @property
    def notices(self) -> trio.MemoryReceiveChannel[Notice]: ...

    @property
    def wanted(self) -> Wanted | None: ...

    def post(self, event: Event) -> None:
        """Report what the session wants, or has noticed."""


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
    """Reads the logs and passes records on: a `Fetcher`."""

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

    def feeding(self, consumer: PartitionConsumer) -> Feeding: ...


class LogFacts(Protocol):
    """Knows topic ids, offset ranges and leader epochs of the logs: `Logs`."""

    async def reach(self, partitions: Iterable[TopicPartition]) -> None: ...

    def keep(self, topics: Collection[str]) -> None: ...

    @property
    def cluster_id(self) -> str: ...

    def topic_id(self, topic: str) -> uuid.UUID | None: ...

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]: ...

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


@attrs.frozen(slots=True)
class Source:
    """The source of one session's records."""

    lookup: Lookup
    feeds: LogReader
    logs: LogFacts


OpenSource = Callable[[OffsetManager], Source]
"""Opens a session's source, given the owner of the marks that move with positions."""


def of_brokers(runtime: Runtime) -> OpenSource:
    """Return a function that opens sources of a group's sessions."""

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
