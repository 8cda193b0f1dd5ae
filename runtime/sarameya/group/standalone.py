"""Partitions of one's own choice, read without the group protocol (sarama's Consumer and its PartitionConsumers).

Nobody is told, nothing is rebalanced, and nobody takes over what this process no longer reads. The user says what is
read, and from where; a group's committed offsets can be used and kept all the same, as long as the group has no
members. Fetching, claims, marks and commits are those of a group; `reading.py` has what goes on while it is open.
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
from sarameya.group.interceptors import ConsumerInterceptor, check_interceptors
from sarameya.group.marks import Marks
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.pauses import Pauses, Pausing
from sarameya.group.reading import CLOSED, Reading
from sarameya.group.runtime import Runtime, open_runtime
from sarameya.group.start_offset import StartOffset, parse_start
from sarameya.model import CommittedOffset, TopicPartition, is_offset
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.net.transport import Transport
from sarameya.observe import CommitFailed, Observer, Observers
from sarameya.offset_policy import OffsetPolicy, parse_policy
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.offset_ledger import OffsetLedger


class Consumer(Marks, Pausing):
    """Reads the partitions it is told to, for the length of an `async with`:

        async with Consumer(["localhost:9092"]) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                async for message in claim:
                    ...

    With a `group_id` partitions begin where the group has committed, unless told otherwise, and marks are committed
    for the group: every `Config.autocommit_interval` and once more at the end (with `Config.autocommit`), and by
    `commit`. A group takes such commits only while it has no members. What two consumers both read is read twice.

    The other arguments are those of `ConsumerGroup`; of the options, those of the membership do not matter here.
    Making one does no I/O. Raises ConfigError for an address, a group id or interceptors that cannot be. Leaving the
    block, in whatever way, ends all claims and makes the last commit, within `Config.close_timeout`; what that commit
    fails with is raised, or told to observers (CommitFailed) where the block itself has failed.
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
        if group_id is not None and not group_id:
            raise ConfigError("group_id", group_id, "must be a non-empty string, or None")
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
        self._reading: Reading | None = None

    # -- the lifetime -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reading, self._reading = self._opened, None
        try:
            reading.close()
            failure = await reading.commit_last()
        finally:
            self._ledger = OffsetLedger()
            # What the block raised goes on as it is: through the nursery it would come out in a group.
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
            reading, running = Reading(runtime, self._pauses), trio.Event()
            runtime.shielded.start_soon(reading.run, running)
            await running.wait()
            self._runtime, self._reading = runtime, reading
            if reading.offsets is not None:
                self._ledger = reading.offsets.ledger
            try:
                yield
            finally:
                self._runtime = None

    @property
    def _opened(self) -> Reading:
        if self._reading is None:
            raise RuntimeError(CLOSED)
        return self._reading

    # -- what there is ------------------------------------------------------------------------------

    async def topic_partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """The topic's partitions, as the cluster tells them now.

        Raises UnknownTopicError or ConnectError where the topic or the cluster is not found in
        `Config.bootstrap_timeout` seconds, and TopicAuthorizationError.
        """
        reading = self._opened
        with reading.calls.call():
            return await reading.partitions_of(topic)

    async def offsets(self, partitions: Iterable[TopicPartition], at: OffsetPolicy | int) -> dict[TopicPartition, int]:
        """Where these logs begin (`oldest`), where they end (`newest`: the next offset to be written), or where the
        first message stands whose timestamp is at least `at` (an aware datetime, or milliseconds since 1970) or at
        least so long ago (a timedelta); the log's end if none is.

        Waits for partitions without a leader; bound it with a cancel scope. Raises as `topic_partitions` does.
        """
        place, wanted, reading = _place(at), _checked(partitions), self._opened
        with reading.calls.call():
            await reading.reach(wanted)
            found = await reading.lookup.find(dict.fromkeys(wanted, place))
        return {partition: place.offset for partition, place in found.items()}

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """What the group has committed, asked of its coordinator now.

        Raises ConfigError without a `group_id`, GroupAuthorizationError, TopicAuthorizationError.
        """
        wanted, reading = _checked(partitions), self._opened
        with reading.calls.call():
            return dict(await self._offsets(reading).look_up(wanted))

    # -- reading ------------------------------------------------------------------------------------

    @property
    def claims(self) -> Mapping[TopicPartition, Claim]:
        """What is being read."""
        return dict(self._opened.claims)

    @property
    def buffered_bytes(self) -> int:
        """What has been fetched and not yet been dealt with, in bytes: at most `Config.fetch_buffer_bytes`, and one
        record batch larger than was asked for from each broker. 0 outside of the block."""
        return self._runtime.budget.held if self._runtime is not None else 0

    @asynccontextmanager
    async def consume_partition(
        self, topic: str, partition: int, offset: StartOffset | None = None
    ) -> AsyncIterator[Claim]:
        """Read one partition for the length of a block: `consume_partitions`, for one."""
        async with self.consume_partitions([TopicPartition(topic, partition)], offset) as claims:
            (claim,) = claims.values()
            yield claim

    @asynccontextmanager
    async def consume_partitions(
        self,
        partitions: Iterable[TopicPartition] | Mapping[TopicPartition, StartOffset | None],
        offset: StartOffset | None = None,
    ) -> AsyncIterator[Mapping[TopicPartition, Claim]]:
        """Read partitions for the length of a block, which is given a `Claim` for each.

        Each begins at its own offset, if a mapping says one, else at `offset`: an int, `oldest`, `newest`, a time (an
        aware datetime), so long ago (a timedelta), or `committed`, where the group's commit says, or
        `Config.offset_initial` where there is none (which is then committed at once, so that it is not resolved anew).
        `committed` is the default with a group id, `Config.offset_initial` without. Marks only move forward, from the
        group's commit on: who begins before it, and wants it to move back, says so by `reset_offset`.

        Raises UnknownTopicError for a topic or a partition that does not exist, ConnectError, ValueError for one
        that is being read already and for what is no offset, CommitError where the group is in use, and
        TopicAuthorizationError, GroupAuthorizationError, NoCommittedOffsetError where `Config.offset_initial` is to
        decide and is `fail`. What goes wrong later (an offset outside of the log, a
        corrupt record) is raised where that claim is read, and touches no other. At the end of the block the claims'
        iterators end; whoever reads them elsewhere is not cancelled.
        """
        chosen, reading = self._chosen(partitions, offset), self._opened
        with reading.calls.call():
            claims = await reading.begin(chosen)
        try:
            yield claims
        finally:
            for claim in claims.values():
                reading.end(claim)

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
                raise ValueError(f"{partition} cannot begin at {start!r}: {error}") from None
            if chosen[partition] == "fail":
                raise ValueError(f"{partition} cannot begin at {start!r}: must say where")
            if chosen[partition] == "committed" and self.group_id is None:
                raise _without_group()
        return chosen

    def end(self, claim: Claim) -> None:
        """Read this partition no longer, ahead of its block's end: the claim's iterators end. Its marks are kept."""
        self._opened.end(claim)

    # -- committing ---------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Commit every mark made so far, and wait until the coordinator has taken it.

        Raises CommitError where the group has members, who alone may commit then, GroupAuthorizationError,
        TopicAuthorizationError or KafkaError where a partition was refused (the others are committed all the same),
        ConfigError without a `group_id`.
        """
        reading = self._opened
        with reading.calls.call():
            await self._offsets(reading).commit()

    def _offsets(self, reading: Reading) -> OffsetManager:
        if reading.offsets is None:
            raise _without_group()
        return reading.offsets

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        if self.group_id is None:
            return _without_group()
        return ValueError(f"{partition} has not been read here; what a consumer reads can be marked until it is closed")


def _checked(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The same, each once. Raises TypeError for what is no TopicPartition."""
    wanted = list(dict.fromkeys(partitions))
    for partition in wanted:
        if not (isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[1], int)):
            raise TypeError(f"{partition!r} is no TopicPartition")
    return [TopicPartition(*partition) for partition in wanted]


def _place(at: object) -> OffsetPolicy | int:
    """The same, checked. Raises ValueError for what is no place in a log."""
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
    return ConfigError("group_id", None, "committed offsets, marks and commits need one: Consumer(..., group_id=...)")
