"""The loop: join, session, rejoin, until closed, cancelled or failed for good. Owns the group's lifetime.

Connections, metadata and the membership are shielded (`runtime.py`): when the code around `consume()` is cancelled,
they go on until the session has cleaned up, committed and left, which is bounded by `close_timeout`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self, overload

import attrs
import trio

from sarameya.config import Config
from sarameya.errors import ConfigError
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
from sarameya.group.interceptors import ConsumerInterceptor, check_interceptors
from sarameya.group.leader import RunSync
from sarameya.group.member import CloseWanted, Member, NewAssignment, Notice, SubscriptionChanged
from sarameya.group.outcome import Outcome
from sarameya.group.pauses import Pauses, Pausing
from sarameya.group.runtime import Runtime, open_runtime
from sarameya.group.session_run import SessionRun
from sarameya.group.source import of_brokers
from sarameya.meters import Meter, Meters
from sarameya.net.broker_pool import parse_bootstrap
from sarameya.net.transport import Transport
from sarameya.observe import GroupLeft, LeaveFailed, Observer, Observers, Retrying
from sarameya.protocol.assignors import ASSIGNORS
from sarameya.protocol.assignors.base import Assignor
from sarameya.protocol.assignors.calling import usable
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership_messages import (
    Fail,
    JoinWanted,
    LeaveWanted,
    Left,
    MembershipLost,
    PrepareRebalance,
)
from sarameya.protocol.subscription import Wanted, checked
from sarameya.status import GroupStatus

_LEAST_LEAVE_SECONDS = 1.0
"""A leave is tried for this long even when the closing has used up its time."""

_DROPPED = "the subscription was dropped"
_UNANSWERED = "the coordinator has not answered in time"


class ConsumerGroup(Pausing):
    """A member of a consumer group (KIP-62 and its kin), for the length of an `async with`.

    `bootstrap_servers` are HOST:PORT strings. `observers` are called with every event (see `sarameya.observe`).
    `interceptors` look at messages, or change them, before the handler is given them (see `ConsumerInterceptor`).
    `assignors`, best first, stand in for `Config.rebalance_strategies`: one's own among them. `transport` opens
    streams, TCP unless given; `run_sync` runs assignors, in a worker thread unless given; `rng` jitters retries, and
    with a seed makes them the same in every run; `wall_clock` (seconds since 1970) is what a start "so long ago" is
    counted back from.
    Making one does no I/O. Raises ConfigError for an address, a group id, assignors or interceptors that cannot be.
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
        run_sync: RunSync = trio.to_thread.run_sync,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if not group_id:
            raise ConfigError("group_id", group_id, "must be a non-empty string")
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
        self._member: Member | None = None
        self._session_run: SessionRun | None = None
        self._connecting: trio.CancelScope | None = None
        self._closing: CloseWanted | None = None
        self._idle = trio.Event()
        self._idle.set()

    @property
    def buffered_bytes(self) -> int:
        """What has been fetched and not yet been dealt with, in bytes: at most `Config.fetch_buffer_bytes`, and one
        record batch larger than was asked for from each broker."""
        return self._runtime.budget.held if self._runtime is not None else 0

    def status(self) -> GroupStatus:
        """What this member is doing now, partition by partition. Cheap enough for each second; call it on the event
        loop."""
        runtime, member, run = self._runtime, self._member, self._session_run
        budget = (0, 0) if runtime is None else (runtime.budget.held, runtime.budget.capacity)
        return attrs.evolve(
            GroupStatus(group=self.group_id, state="closed") if member is None else member.status(),
            partitions=() if run is None else run.status(),
            buffered_bytes=budget[0],
            budget_bytes=budget[1],
        )

    @property
    def meters(self) -> Meters:
        """What this member has counted since it was made, as it goes on counting."""
        return self._meter.meters

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the block raised goes on as it is: through the nursery it would come out in a group.
        await self._lifetime.__aexit__(None, None, None)

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
        ) as self._runtime:
            try:
                yield
            finally:
                self._runtime = None

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
        """Consume `topics`, or every topic whose whole name `pattern` matches (now or later, Kafka's own topics
        aside), as a member of the group, session after session; returns after `close`.

        Raises, when a session has ended in order and the group was left: an ExceptionGroup of ClaimErrors (and
        of what setup or cleanup raised); GroupError where the coordinator refused this member for good;
        ConnectError or UnknownTopicError where the cluster or a topic cannot be found at the start; ConfigError
        for topics or streams that cannot be; AssignorError where an assignor fails; ProtocolError where the leader's
        assignment is no assignment. Cancelling it ends the session in order too, within `close_timeout`.
        """
        runtime = self._runtime
        if runtime is None:
            raise RuntimeError("consume() needs `async with ConsumerGroup(...) as group`")
        if not self._idle.is_set():
            raise RuntimeError("consume() is running already; a group is one member")
        if handler is None:
            raise TypeError("consume() needs a handler")
        if isinstance(handler, StreamHandler):
            handler._check()
        wanted = checked(topics, pattern)
        self._idle = trio.Event()
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
            await self._connect(wanted if isinstance(wanted, tuple) else (), runtime)
            if self._closing is None:
                with runtime.pool.refusals(lambda error: member.notify(Fail(error))):
                    await self._live(member, handler, runtime)
        finally:
            self._member = None
            self._idle.set()

    async def _connect(self, topics: Sequence[str], runtime: Runtime) -> None:
        """Reach the cluster, and these topics; where others are subscribed to meanwhile those may come later."""
        while True:
            with trio.CancelScope() as self._connecting:
                await runtime.metadata.reach_cluster(topics)
                return
            if self._closing is not None:
                return
            topics = ()

    @overload
    def subscribe(self, topics: Iterable[str]) -> None: ...

    @overload
    def subscribe(self, *, pattern: re.Pattern[str]) -> None: ...

    def subscribe(self, topics: Iterable[str] | None = None, *, pattern: re.Pattern[str] | None = None) -> None:
        """Subscribe to other topics while `consume()` runs: the group is rejoined with them, and what is no longer
        wanted is given up. A topic that does not exist is waited for. Raises ConfigError for topics that cannot be."""
        self._resubscribe(checked(topics, pattern))

    def unsubscribe(self) -> None:
        """Drop the subscription: the session ends in order, the group is left, `consume()` waits for `subscribe`."""
        self._resubscribe(None)

    def _resubscribe(self, wanted: Wanted | None) -> None:
        if self._member is None:
            raise RuntimeError("subscribe() and unsubscribe() are for while consume() runs")
        self._member.subscribe(wanted)
        if self._connecting is not None:
            self._connecting.cancel()

    def close_nowait(self, reason: str = "the group is closed") -> None:
        """Ask `consume()` to end in order: stop fetching, drain, clean up, commit, leave. It then returns.

        The broker is told the `reason` (KIP-800), and logs it.
        """
        self._closing = self._closing or CloseWanted(reason)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._member is not None:
            self._member.notify(self._closing)

    async def close(self, reason: str = "the group is closed") -> None:
        """`close_nowait`, then wait until `consume()` has ended."""
        self.close_nowait(reason)
        await self._idle.wait()

    # -- the loop -----------------------------------------------------------------------------------

    async def _live(self, member: Member, handler: ConsumerGroupHandler, runtime: Runtime) -> None:
        """Be a member: from the first join to the leave."""
        deadline, reason = trio.current_time(), "cancelled"
        membership: trio.CancelScope = await runtime.shielded.start(_run_scoped, member)
        try:
            outcome = await self._sessions(member, handler, runtime)
            deadline, reason = outcome.deadline, outcome.reason
            if outcome.fatal is not None and not outcome.failures:
                raise outcome.fatal
            if outcome.failures:
                raise ExceptionGroup(outcome.text(self.group_id), outcome.all_failures)
        finally:
            self._member = None
            now = trio.current_time()
            left = min(max(deadline - now, _LEAST_LEAVE_SECONDS), self.config.close_timeout)
            with trio.CancelScope(shield=True, deadline=now + left):
                await self._leave(member, reason)
            membership.cancel()

    async def _sessions(self, member: Member, handler: ConsumerGroupHandler, runtime: Runtime) -> Outcome:
        """Session after session, until one is the last; how that one ended."""
        short = 0
        if member.wanted is None and (last := await self._without_subscription(member, _DROPPED)) is not None:
            return last
        member.post(JoinWanted("the member starts"))
        async for notice in member.notices:
            match notice:
                case NewAssignment():
                    first: NewAssignment | None = notice
                    while first is not None:
                        began = trio.current_time()
                        run = SessionRun(first, member, handler, runtime, self._pauses, of_brokers(runtime))
                        outcome = await self._run_session(run)
                        if outcome.failures or outcome.fatal or outcome.closing:
                            return outcome
                        lasted = trio.current_time() - began
                        short = short + 1 if lasted < self.config.heartbeat_interval and not outcome.rebalanced else 0
                        if (last := await self._between_sessions(member, short, lasted, outcome)) is not None:
                            return last
                        first = outcome.next
                    member.post(JoinWanted(outcome.reason))
                case PrepareRebalance(reason=reason) | MembershipLost(reason=reason):
                    member.post(JoinWanted(reason))  # nothing runs that would have to be given up first
                case SubscriptionChanged() if member.wanted is None:
                    if (last := await self._without_subscription(member, _DROPPED)) is not None:
                        return last
                    member.post(JoinWanted("subscribed anew"))
                case _ if (last := self._last_word(notice)) is not None:
                    return last
        raise AssertionError("the membership stopped without a word")

    async def _run_session(self, run: SessionRun) -> Outcome:
        self._session_run = run
        try:
            return await run.run()
        finally:
            self._session_run = None

    async def _between_sessions(self, member: Member, short: int, lasted: float, outcome: Outcome) -> Outcome | None:
        """Wait where a rejoin at once would do harm, or nothing is subscribed to; the outcome if that is the end."""
        if short > 1 and member.wanted is not None:
            # A handler that returns at once, again and again, must not become a rebalance storm.
            delay = self._backoff.delay(short - 1)
            self._observer(Retrying("session", short, lasted, delay, outcome.reason, kind="session"))
            if (last := await self._pause(member, delay, outcome)) is not None:
                return last
        if member.wanted is None:
            outcome.next = None
            return await self._without_subscription(member, outcome.reason)
        return None

    async def _without_subscription(self, member: Member, reason: str) -> Outcome | None:
        """Leave the group, and wait until something is subscribed to again."""
        member.post(LeaveWanted(reason))
        # A coordinator that does not answer is waited for as long as when the group is closed.
        with trio.move_on_after(self.config.close_timeout) as waiting:
            async for notice in member.notices:
                if isinstance(notice, Left):
                    self._tell_left(reason, taken=notice.taken)
                    break
                if (last := self._last_word(notice)) is not None:
                    return last
        if waiting.cancelled_caught:
            self._observer(LeaveFailed(self.group_id, _UNANSWERED))
        while member.wanted is None:
            if (last := self._last_word(await member.notices.receive())) is not None:
                return last
        return None

    async def _pause(self, member: Member, seconds: float, outcome: Outcome) -> Outcome | None:
        """Wait, unless the group is closed, fails, or waits for us. What is assigned or lost meanwhile is noted."""
        with trio.move_on_after(seconds):
            async for notice in member.notices:
                match notice:
                    case NewAssignment():
                        outcome.next = notice
                    case MembershipLost():
                        outcome.next = None
                    case PrepareRebalance():
                        outcome.next = None
                        return None
                    case SubscriptionChanged() if member.wanted is None:
                        return None
                    case _ if (last := self._last_word(notice)) is not None:
                        return last
        return None

    async def _leave(self, member: Member, reason: str) -> None:
        """Leave the group and wait until the coordinator has taken note, as long as the caller's scope allows."""
        with suppress(trio.WouldBlock):
            while True:
                member.notices.receive_nowait()  # of before: a Fail among them says nothing of the leave
        member.post(LeaveWanted(reason))
        cause = _UNANSWERED
        try:
            async for notice in member.notices:
                match notice:
                    case Left(taken=taken):
                        self._tell_left(reason, taken=taken)
                        return
                    case Fail(error=error):
                        cause = str(error)
                        break
        except trio.Cancelled:
            self._observer(LeaveFailed(self.group_id, cause))
            raise
        self._observer(LeaveFailed(self.group_id, cause))

    def _tell_left(self, reason: str, *, taken: bool) -> None:
        if taken:
            self._observer(GroupLeft(self.group_id, reason))

    def _last_word(self, notice: Notice) -> Outcome | None:
        """The outcome, if `notice` ends the membership outside a session."""
        match notice:
            case CloseWanted(reason=reason):
                deadline = trio.current_time() + self.config.close_timeout
                return Outcome(reason=reason, deadline=deadline, closing=True)
            case Fail(error=error):
                return Outcome(reason=str(error), fatal=error)
        return None


async def _run_scoped(
    member: Member, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await member.run()
