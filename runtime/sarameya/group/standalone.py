"""A consumer of chosen partitions without the group protocol (sarama's Consumer and PartitionConsumer).

The user chooses the partitions and their start offsets. There is no rebalance: if this process stops, no other process
takes over its partitions. A group's committed offsets can be read, and can be stored while the group has no members.
Fetching, claims, marks and commits are the same as in a group; `standalone_claims.py` starts and stops the claims.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import trio

from sarameya.config import Config
from sarameya.errors import ConfigError
from sarameya.group.claim import Claim
from sarameya.group.delivery.interceptors import ConsumerInterceptor, check_interceptors
from sarameya.group.delivery.pauses import Pauses, Pausing
from sarameya.group.offsets.marks import Marks
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.offsets.start_offset import StartOffset, parse_start
from sarameya.group.runtime import Runtime, open_runtime
from sarameya.group.standalone_claims import CLOSED, StandaloneClaims
from sarameya.model import CommittedOffset, TopicPartition, is_offset
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.net.transport import Transport
from sarameya.observe import CommitFailed, Observer, Observers
from sarameya.offset_policy import OffsetPolicy, parse_policy
from sarameya.option_kinds import check_group_id
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.offset_ledger import OffsetLedger
from sarameya.protocol.subscription import checked


class Consumer(Marks, Pausing):
    """Consumer of chosen partitions, for the length of an `async with`.

    Example::

        async with Consumer(["localhost:9092"]) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                async for message in claim:
                    ...

    With a `group_id`, partitions start at the group's committed offsets by default, and marks are committed for the
    group: every `Config.autocommit_interval` and at the end (with `Config.autocommit`), and by `commit`. A group
    accepts such commits only while it has no members. Two consumers that read the same partition both get all its
    messages.

    The constructor does no I/O. Leaving the block, even by an exception, stops all claims and makes the last commit,
    within `Config.close_timeout`. If that commit fails, its error is raised or, if the block itself has failed,
    reported to observers (CommitFailed).

    Args:
        bootstrap_servers: HOST:PORT strings, or one string with commas between them.
        config: Options; those of the membership have no effect here.
        group_id: Id of the group whose committed offsets are used; None for no group.
        observers: Called with every event (see `sarameya.observe`).
        interceptors: Read or change messages before the claims return them (see `ConsumerInterceptor`).
        transport: Opens streams; TCP by default.
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
        if group_id is not None:
            check_group_id(group_id)
        parse_bootstrap(bootstrap_servers)
        super().__init__(OffsetLedger())
        self.group_id = group_id
        self.config = config if config is not None else Config()
        self._bootstrap = bootstrap_servers
        self._transport = transport
        self._wall_clock = wall_clock
        self._backoff = Backoff.of(self.config, rng)
        self._observer = Observers(observers)
        self._interceptors = tuple(interceptors)
        check_interceptors(self._interceptors)
        self._pauses = Pauses(group_id or "", self._observer)
        self._lifetime = self._run()
        self._runtime: Runtime | None = None
        # The open claims; None outside of the block.
        self._standalone: StandaloneClaims | None = None

    # -- the lifetime -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        standalone, self._standalone = self._opened, None
        try:
            standalone.close()
            failure = await standalone.commit_last()
        finally:
            self._use(OffsetLedger())
            # Not passed to the nursery, which would wrap the block's exception in an ExceptionGroup.
            await self._lifetime.__aexit__(None, None, None)
        if failure is not None:
            if error is None:
                raise failure
            self._observer(CommitFailed(self.group_id or "", str(failure)))

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        async with open_runtime(
            self.group_id or "",
            self._bootstrap,
            self.config,
            self._observer,
            self._backoff,
            self._transport,
            self._wall_clock,
            self._interceptors,
        ) as runtime:
            standalone, running = StandaloneClaims(runtime, self._pauses), trio.Event()
            runtime.shielded.start_soon(standalone.run, running)
            await running.wait()
            self._runtime, self._standalone = runtime, standalone
            if standalone.offsets is not None:
                self._use(standalone.offsets.ledger)
            try:
                yield
            finally:
                self._runtime = None

    @property
    def _opened(self) -> StandaloneClaims:
        if self._standalone is None:
            raise RuntimeError(CLOSED)
        return self._standalone

    # -- topics and offsets -------------------------------------------------------------------------

    async def topic_partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions, as the cluster reports them now.

        Raises:
            UnknownTopicError: The topic was not found within `Config.bootstrap_timeout` seconds.
            ConnectError: The cluster was not reached within that time.
            TopicAuthorizationError: The client may not describe the topic.
            ConfigError: `topic` is not a valid topic name.
        """
        standalone = self._opened
        checked([topic], None)
        with standalone.calls.call():
            return await standalone.partitions_of(topic)

    async def offsets(self, partitions: Iterable[TopicPartition], at: OffsetPolicy | int) -> dict[TopicPartition, int]:
        """Look up an offset in each log.

        Waits for partitions without a leader; bound the wait with a cancel scope. Raises as `topic_partitions` does.

        Args:
            partitions: The logs to search.
            at: `oldest` for the log start, `newest` for the offset of the next record, or a time: an aware datetime,
                milliseconds since 1970, or a timedelta before now.

        Returns:
            The offset in each log. For a time, it is the offset of the first message at or after that time, or the log
            end if there is no such message.
        """
        place, wanted, standalone = _place(at), _checked(partitions), self._opened
        with standalone.calls.call():
            await standalone.check_partitions(wanted)
            found = await standalone.lookup.find(dict.fromkeys(wanted, place))
        return {partition: place.offset for partition, place in found.items()}

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the group's committed offsets, from its coordinator; None for a partition without one.

        Raises:
            ConfigError: There is no `group_id`.
            GroupAuthorizationError: The client may not read the group.
            TopicAuthorizationError: The client may not read a topic.
        """
        wanted, standalone = _checked(partitions), self._opened
        with standalone.calls.call():
            return dict(await self._offsets(standalone).look_up(wanted))

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def claims(self) -> Mapping[TopicPartition, Claim]:
        """The claims that are being read, by partition."""
        return dict(self._opened.claims)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fetched and are not processed yet; 0 outside of the block.

        At most `Config.fetch_buffer_bytes`, and for each broker one record batch larger than requested.
        """
        return self._runtime.budget.held if self._runtime is not None else 0

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
        chosen, standalone = self._chosen(partitions, offset), self._opened
        with standalone.calls.call():
            claims = await standalone.start(chosen)
        try:
            yield claims
        finally:
            for claim in claims.values():
                standalone.stop(claim)

    def _chosen(
        self,
        partitions: Iterable[TopicPartition] | Mapping[TopicPartition, StartOffset | None],
        offset: StartOffset | None,
    ) -> dict[TopicPartition, StartOffset]:
        own = partitions if isinstance(partitions, Mapping) else {}
        chosen: dict[TopicPartition, StartOffset] = {}
        for partition in _checked(partitions):
            start = next((s for s in (own.get(partition), offset) if s is not None), None)
            if start is None:
                policy = self.config.offset_initial_of(partition.topic)
                chosen[partition] = "committed" if self.group_id is not None else policy
                continue
            try:
                chosen[partition] = parse_start(start)
            except ValueError as error:
                raise ValueError(f"{partition} cannot start at {start!r}: {error}") from None
            if chosen[partition] == "fail":
                raise ValueError(f"{partition} cannot start at {start!r}: it is not a start offset")
            if chosen[partition] == "committed" and self.group_id is None:
                raise _without_group()
        return chosen

    def end(self, claim: Claim) -> None:
        """Stop reading this claim before the end of its block: its iterators end. Its marks are kept."""
        self._opened.stop(claim)

    # -- committing ---------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Commit every mark made so far, and wait for the coordinator's response.

        Raises:
            CommitError: The group has members; only they may commit.
            GroupAuthorizationError: The client may not use the group.
            TopicAuthorizationError: The client may not read a topic. The other partitions are committed.
            KafkaError: The coordinator refused a partition. The others are committed.
            ConfigError: There is no `group_id`.
        """
        standalone = self._opened
        with standalone.calls.call():
            await self._offsets(standalone).commit()

    def _offsets(self, standalone: StandaloneClaims) -> OffsetManager:
        if standalone.offsets is None:
            raise _without_group()
        return standalone.offsets

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        if self.group_id is None:
            return _without_group()
        return ValueError(f"{partition} cannot be marked: this consumer has not read it, or is closed")


def _checked(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions without duplicates.

    Raises:
        TypeError: A value is not a TopicPartition.
        ConfigError: A topic name is not valid.
    """
    wanted = list(dict.fromkeys(partitions))
    for partition in wanted:
        if not (isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[1], int)):
            raise TypeError(f"{partition!r} is no TopicPartition")
        checked([partition[0]], None)
    return [TopicPartition(*partition) for partition in wanted]


def _place(at: object) -> OffsetPolicy | int:
    """Return `at` as an offset policy or as milliseconds since 1970.

    Raises:
        ValueError: `at` is neither.
    """
    allowed = "must be 'oldest', 'newest', a time with its zone, a duration, or a time in milliseconds"
    if isinstance(at, int) and is_offset(at):
        return at
    try:
        policy = parse_policy(at)
    except ValueError as error:
        raise ValueError(f"at={at!r}: {allowed}") from error
    if policy == "fail":
        raise ValueError(f"at={at!r}: {allowed}")
    return policy


def _without_group() -> ConfigError:
    return ConfigError("group_id", None, "is required for committed offsets, marks and commits")
