"""The public API of a group member: `ConsumerGroup`. It owns the member's lifetime; `sessions.py` runs the sessions.

Connections, metadata and the membership are shielded (`runtime.py`). If the code around `consume()` is cancelled, they
continue until the session has called `cleanup`, committed and left the group, at most for `close_timeout`.

Rules that are easily broken:

- Exceptions of the user's block are not wrapped into an ExceptionGroup: they do not pass through the nursery. The same
  holds for `EmbeddedCluster`. Test: `tests/group/test_standalone.py::test_error_of_the_block_is_raised_unchanged`.
- A failure while `consume()` is cancelled is raised together with the cancellation. Test:
  `tests/group/test_overlapping_session_ends.py::test_failure_in_a_cancelled_session_is_raised`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self, overload

import attrs
import trio

from sarameya.config import Config
from sarameya.errors import TopicExistsError, UnknownTopicError
from sarameya.group.delivery.interceptors import ConsumerInterceptor, check_interceptors
from sarameya.group.delivery.pauses import Pauses, Pausing
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_methods import check_handler
from sarameya.group.membership.leader import RunSync, run_in_thread
from sarameya.group.membership.member import Member
from sarameya.group.membership.notices import CloseWanted
from sarameya.group.monitoring.loop_monitor import Blockage, LoopMonitor
from sarameya.group.runtime import Runtime, open_runtime
from sarameya.group.services import HandlerServices
from sarameya.group.sessions import Sessions
from sarameya.meters import Meter, Meters
from sarameya.net.admin.topic_admin import BY_DEFAULT, TopicAdmin
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.net.transport import Transport
from sarameya.observe import LoopBlocked, Observer, Observers
from sarameya.option_kinds import check_group_id
from sarameya.producer.producer import Producer
from sarameya.protocol.assignors import ASSIGNORS
from sarameya.protocol.assignors.base import Assignor
from sarameya.protocol.assignors.calling import usable
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.messages import Fail
from sarameya.protocol.subscription import Wanted, checked
from sarameya.status import GroupStatus

_PASSES_A_SESSION_TIMEOUT = 20
"""Passes of the scheduler that must fit into a session timeout.

A heartbeat and its response need about five of them.
"""
_LEAST_LEAVE_SECONDS = 1.0
"""Minimum of seconds for the LeaveGroup request, even if the steps before it have used up `close_timeout`."""


class ConsumerGroup(Pausing):
    """A member of a consumer group (KIP-62 and later), for the length of an `async with`, which closes it.

    The constructor does no I/O.

    Args:
        bootstrap_servers: HOST:PORT strings, or one string with commas between them.
        group_id: Id of the group.
        config: Options; the defaults if None.
        observers: Called with every event (see `sarameya.observe`).
        interceptors: Read or change messages before the handler receives them (see `ConsumerInterceptor`).
        assignors: Used instead of `Config.rebalance_strategies`, best first; may be your own classes.
        transport: Opens streams; TCP by default.
        run_sync: Runs assignors; in a worker thread by default.
        rng: Jitters the delays of retries. With a fixed seed they are the same in every run.
        wall_clock: Returns the seconds since 1970. A start offset given as a duration counts back from this time.

    Raises:
        ConfigError: An address, the group id, an assignor or an interceptor is invalid.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        group_id: str,
        config: Config | None = None,
        *,
        observers: Iterable[Observer] = (),
        interceptors: Sequence[ConsumerInterceptor] = (),
        assignors: Sequence[Assignor] = (),
        transport: Transport | None = None,
        run_sync: RunSync = run_in_thread,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        check_group_id(group_id)
        parse_bootstrap(bootstrap_servers)
        self.group_id = group_id
        self.config = config if config is not None else Config()
        self._bootstrap = bootstrap_servers
        self._transport = transport
        self._wall_clock = wall_clock
        self._run_sync = run_sync
        self._assignors = usable(assignors) or tuple(ASSIGNORS[name]() for name in self.config.rebalance_strategies)
        self._backoff = Backoff.of(self.config, rng)
        self._meter = Meter(trio.current_time)
        self._observer = Observers([self._meter, *observers])
        self._interceptors = tuple(interceptors)
        check_interceptors(self._interceptors)
        self._pauses = Pauses(group_id, self._observer)
        self._lifetime = self._run()
        self._runtime: Runtime | None = None
        self._monitor: LoopMonitor | None = None
        self._member: Member | None = None
        self._handler: ConsumerGroupHandler | None = None
        self._sessions: Sessions | None = None
        self._connecting: trio.CancelScope | None = None
        self._closing: CloseWanted | None = None
        # Set while `consume()` does not run.
        self._idle = trio.Event()
        self._idle.set()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fetched and are not processed yet.

        At most `Config.fetch_buffer_bytes`, and for each broker one record batch larger than requested.
        """
        return self._runtime.budget.held if self._runtime is not None else 0

    def status(self) -> GroupStatus:
        """Return a snapshot of this member, partition by partition.

        The call is cheap, even once a second. Call it on the event loop.
        """
        runtime, member, sessions = self._runtime, self._member, self._sessions
        budget = (0, 0) if runtime is None else (runtime.budget.held, runtime.budget.capacity)
        blocked = None if self._monitor is None else self._monitor.last
        return attrs.evolve(
            GroupStatus(group=self.group_id, state="closed") if member is None else member.status(),
            blocked_seconds=0.0 if blocked is None else blocked.seconds,
            blocked_ago=-1.0 if blocked is None else trio.current_time() - blocked.ended_at,
            blocked_at="" if blocked is None else blocked.where,
            partitions=() if sessions is None else sessions.status(),
            buffered_bytes=budget[0],
            budget_bytes=budget[1],
        )

    @property
    def meters(self) -> Meters:
        """Counters of this member since its creation. The returned object keeps counting."""
        return self._meter.meters

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end_consume()
        # Not passed to the nursery, which would wrap the block's exception in an ExceptionGroup.
        await self._lifetime.__aexit__(None, None, None)

    async def _end_consume(self) -> None:
        """Close the group, and wait until `consume()` has ended: it may run in a nursery outside of the block.

        `consume()` still needs the connections, to commit and to leave. The wait is shielded, since it is bounded.
        """
        if not self._idle.is_set():
            self.close_nowait("the block of the group ended")
            with trio.move_on_after(self.config.close_timeout + 2 * _LEAST_LEAVE_SECONDS, shield=True):
                await self._idle.wait()

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        async with open_runtime(
            self.group_id,
            self._bootstrap,
            self.config,
            self._observer,
            self._backoff,
            self._transport,
            self._wall_clock,
            self._interceptors,
            self._meter.answered,
            self.config.session_timeout / _PASSES_A_SESSION_TIMEOUT,
        ) as self._runtime:
            self._monitor = LoopMonitor(self.config.session_timeout / 3, self._on_blockage)
            try:
                with self._monitor.watching():
                    yield
            finally:
                self._runtime = self._monitor = None

    def _on_blockage(self, blockage: Blockage) -> None:
        self._observer(LoopBlocked(self.group_id, blockage.seconds, blockage.where, blockage.stack))

    @overload
    async def consume(self, topics: Iterable[str], handler: ConsumerGroupHandler) -> None: ...

    @overload
    async def consume(self, *, pattern: re.Pattern[str], handler: ConsumerGroupHandler) -> None: ...

    async def consume(
        self,
        topics: Iterable[str] | None = None,
        handler: ConsumerGroupHandler | None = None,
        *,
        pattern: re.Pattern[str] | None = None,
    ) -> None:
        """Consume as a member of the group, session after session. Returns after `close`.

        An exception is raised after the session has ended in order and the group was left. Cancelling the call ends the
        session in order, too, within `close_timeout`.

        Args:
            topics: Names of the topics to subscribe to.
            handler: Called with each session and its claims.
            pattern: Instead of `topics`: subscribe to every topic whose whole name matches, now or later, except
                Kafka's internal topics.

        Raises:
            ExceptionGroup: The ClaimErrors of the handler's tasks, and the exceptions of its other methods.
            GroupError: The coordinator refused this member permanently.
            ConnectError: The cluster was not reached at the start.
            UnknownTopicError: A topic was not found at the start.
            ConfigError: Topics, the handler or its options are invalid.
            AssignorError: An assignor failed.
            ProtocolError: The leader's assignment cannot be decoded.
        """
        runtime = self._runtime
        if runtime is None:
            raise RuntimeError("consume() needs `async with ConsumerGroup(...) as group`")
        if not self._idle.is_set():
            raise RuntimeError("consume() is running already; a group is one member")
        if handler is None:
            raise TypeError("consume() needs a handler")
        check_handler(handler)
        named = checked(topics, pattern)
        wanted = handler._subscribed(named, self.group_id)
        self._idle = trio.Event()
        self._handler = handler
        self._member = member = Member(
            self.group_id,
            wanted,
            self._assignors,
            runtime.pool,
            runtime.metadata,
            self.config,
            self._observer,
            self._backoff,
            self._run_sync,
        )
        try:
            await self._connect(named if isinstance(named, tuple) else (), runtime)
            if self._closing is None:
                with runtime.pool.refusals(lambda error: member.notify(Fail(error))):
                    async with handler._running(self._services(named)):
                        await self._run_membership(member, handler, runtime)
            else:  # a loop around `consume()` must not block the event loop
                await trio.lowlevel.checkpoint()
        finally:
            self._member = self._handler = None
            self._idle.set()

    def _services(self, wanted: Wanted) -> HandlerServices:
        return HandlerServices(
            self.group_id,
            wanted,
            self._producer,
            self._ensure_topics,
            self._wall_clock,
            self._observer,
            self._backoff.rng,
        )

    def _producer(self) -> Producer:
        return Producer(
            self._bootstrap,
            self.config,
            observers=[self._observer],
            transport=self._transport,
            wall_clock=self._wall_clock,
        )

    async def _ensure_topics(self, wanted: Mapping[str, str | None], *, create: bool) -> None:
        async with TopicAdmin(self._bootstrap, self.config, self._observer, self._transport) as admin:
            existing, missing = await admin.describe_existing([*wanted, *filter(None, wanted.values())])
            counts = {topic.name: len(topic.partitions) for topic in existing}
            for topic, model in wanted.items():
                if isinstance(missing.get(topic), UnknownTopicError) and create:
                    partitions = BY_DEFAULT if model is None else counts.get(model, BY_DEFAULT)
                    with suppress(TopicExistsError):  # another member was faster
                        await admin.create(topic, partitions)
                    if self._runtime is not None:  # the member may subscribe to it
                        self._runtime.metadata.request_refresh()
                elif topic in missing:
                    raise missing[topic]

    async def _connect(self, topics: Sequence[str], runtime: Runtime) -> None:
        """Connect to the cluster, and fetch metadata of these topics.

        If the subscription changes meanwhile, only the connection is waited for: the new topics may be missing.
        """
        while self._closing is None:
            with trio.CancelScope() as self._connecting:
                await runtime.metadata.wait_for_topics(topics)
                return
            topics = ()

    @overload
    def subscribe(self, topics: Iterable[str]) -> None: ...

    @overload
    def subscribe(self, *, pattern: re.Pattern[str]) -> None: ...

    def subscribe(self, topics: Iterable[str] | None = None, *, pattern: re.Pattern[str] | None = None) -> None:
        """Subscribe to other topics while `consume()` runs.

        The member rejoins the group with them; partitions of other topics are revoked. If a topic does not exist, its
        partitions are assigned once it does.

        Args:
            topics: Names of the topics.
            pattern: Instead of `topics`: matches whole names of topics.

        Raises:
            ConfigError: The topics are invalid.
            RuntimeError: `consume()` is not running.
        """
        wanted = checked(topics, pattern)
        self._resubscribe(wanted if self._handler is None else self._handler._subscribed(wanted, self.group_id))

    def unsubscribe(self) -> None:
        """Drop the subscription: the session ends in order, the member leaves, `consume()` waits for `subscribe`."""
        self._resubscribe(None)

    def _resubscribe(self, wanted: Wanted | None) -> None:
        if self._member is None:
            raise RuntimeError("consume() is not running: call subscribe() and unsubscribe() while it runs")
        self._member.subscribe(wanted)
        if self._connecting is not None:
            self._connecting.cancel()

    def close_nowait(self, reason: str = "the group is closed") -> None:
        """Make `consume()` stop fetching, drain, clean up, commit, leave the group, and then return.

        Args:
            reason: Sent to the broker, which logs it (KIP-800).
        """
        self._closing = self._closing or CloseWanted(reason)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._member is not None:
            self._member.notify(self._closing)

    async def close(self, reason: str = "the group is closed") -> None:
        """Call `close_nowait`, then wait until `consume()` has ended."""
        self.close_nowait(reason)
        await self._idle.wait()

    async def _run_membership(self, member: Member, handler: ConsumerGroupHandler, runtime: Runtime) -> None:
        """Run the membership, from the first join to the leave."""
        deadline, reason = trio.current_time(), "cancelled"
        sessions = Sessions(member, handler, runtime, self._pauses)
        membership: trio.CancelScope = await runtime.shielded.start(_run_scoped, member)
        self._sessions = sessions
        try:
            outcome = await sessions.run()
            deadline, reason = outcome.deadline, outcome.reason
            outcome.raise_failures(self.group_id)
        finally:
            self._member = self._sessions = None
            now = trio.current_time()
            leave_seconds = min(max(deadline - now, _LEAST_LEAVE_SECONDS), self.config.close_timeout)
            with trio.CancelScope(shield=True, deadline=now + leave_seconds):
                await sessions.leave(reason)
            membership.cancel()


async def _run_scoped(
    member: Member, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await member.run()
