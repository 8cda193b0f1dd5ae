"""The trio shell around the session's state machine: executes its commands, runs its jobs, keeps its deadline.

Owners call their parts, with one exception: all parts of the session report events by one typed function, `post`, which
passes them to the machine at once. One task runs the machine's jobs, one after the other. The runner decides nothing;
see "What happens in a session?" in ARCHITECTURE.md.

There are two nurseries. A cancellation of `consume()` cancels the handler's tasks. The services of the session
(fetcher, commits, notices of the member, the deadline) are shielded, and run until the last commit is done.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable
from functools import partial

import trio

from sarameya.errors import SarameyaError
from sarameya.group.delivery.pauses import Pauses
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
from sarameya.group.handler_methods import awaited
from sarameya.group.membership.notices import NewAssignment, Notice, SubscriptionChanged
from sarameya.group.monitoring.stacks import stack_of
from sarameya.group.monitoring.status import owned_status, partition_status
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.session import Session
from sarameya.group.session_machine.deadline import RevocationDeadline, step_deadline
from sarameya.group.session_machine.machine import SessionMachine, SessionOptions
from sarameya.group.session_machine.messages import (
    BreakOffFetch,
    CallEnded,
    CallFailed,
    CallHandler,
    Cancelled,
    Command,
    Commit,
    CommitEnded,
    Drain,
    Drained,
    DropOffsets,
    EndWanted,
    Event,
    FetchOffsets,
    FindStuckTasks,
    Job,
    Observe,
    OffsetsFailed,
    OffsetsFetched,
    Post,
    ShutdownCutOff,
    StartPartitions,
    StopReaders,
    StopStarting,
    SubscriptionRead,
    TasksEnded,
    TasksStuck,
    UpdateSession,
)
from sarameya.group.session_machine.outcome import SessionOutcome
from sarameya.group.session_machine.overdue import OverdueHandlers
from sarameya.group.session_machine.partition_start import PartitionStarter, StartBatch
from sarameya.group.session_machine.readers import ClaimReaders, Readers, run_guarded
from sarameya.group.session_machine.stream_readers import StreamReaders
from sarameya.group.source import OpenSource, SessionMember, SessionRuntime
from sarameya.model import by_topic
from sarameya.observe import TaskStuck
from sarameya.protocol.membership.messages import Left
from sarameya.status import PartitionStatus


class SessionLimits:
    """The time limits of calls and commits as cancel scopes, made from the session's deadline.

    The scopes of readers are in `ReaderTask`.

    Attributes:
        end: The scope of the last calls and the last commit; shielded from the cancellation of `consume()`.
        commit: The scope of the commit of revoked partitions.
    """

    def __init__(self, deadline: RevocationDeadline) -> None:
        self.end = trio.CancelScope(shield=True)
        self.commit = trio.CancelScope()
        self._deadline = deadline
        # At most one scope of each kind is in use: jobs run one after the other.
        self._grace = trio.CancelScope()
        self._release = trio.CancelScope()

    def shorten(self) -> None:
        """Shorten the scopes in use, if the deadline was moved to an earlier time. Only `end` may get more time."""
        deadline = self._deadline
        self._grace.deadline = min(self._grace.deadline, deadline.grace_ends)
        self._release.deadline = min(self._release.deadline, step_deadline(deadline.at, trio.current_time()))
        self.commit.deadline = min(self.commit.deadline, deadline.at)
        self.end.deadline = deadline.session_ends

    def grace_scope(self) -> trio.CancelScope:
        """Return the scope of a call that may run while claims are read, and has the same time as they to end."""
        self._grace = trio.CancelScope(deadline=self._deadline.grace_ends)
        return self._grace

    def release_scope(self, *, shield: bool) -> trio.CancelScope:
        """Return the scope of a call that releases revoked partitions: a commit, or `cleanup`, has to follow.

        Args:
            shield: See `CallHandler.shielded`.
        """
        deadline = step_deadline(self._deadline.at, trio.current_time())
        self._release = trio.CancelScope(deadline=deadline, shield=shield)
        return self._release

    def commit_scope(self) -> trio.CancelScope:
        """Return the scope of the commit of revoked partitions. If the session ends, its last commit replaces it."""
        self.commit = trio.CancelScope(deadline=self._deadline.at)
        return self.commit


class SessionRunner:
    """Runner of one session. `run` is called once."""

    def __init__(
        self,
        first: NewAssignment,
        member: SessionMember,
        handler: ConsumerGroupHandler,
        runtime: SessionRuntime,
        pauses: Pauses,
        open_source: OpenSource,
    ) -> None:
        config = runtime.config
        options = SessionOptions(
            group=runtime.group,
            is_cooperative=member.is_cooperative,
            rebalance_timeout=config.rebalance_timeout,
            rebalance_margin=config.rebalance_margin,
            claim_grace=config.claim_grace,
            close_timeout=config.close_timeout,
        )
        self._first = first
        self._member = member
        self._handler = handler
        self._runtime = runtime
        self._machine = SessionMachine(options, first.generation, member.wanted)
        self._offsets = OffsetManager(
            runtime.group, member, config, runtime.observer, runtime.backoff, runtime.interceptors.committed
        )
        self._source = source = open_source(self._offsets)
        self._session = Session(
            runtime.group,
            first.generation,
            self._offsets,
            pauses,
            source.logs,
            self._machine.outcome,
            end=lambda reason: self.post(EndWanted(reason)),
            observer=runtime.observer,
            group_instance_id=config.group_instance_id,
        )
        self._readers = self._open_readers(pauses)
        self._starter = PartitionStarter(runtime, source, self._offsets, handler, self._readers, member.growth)
        self._limits = SessionLimits(self._machine.deadline)
        self._overdue = OverdueHandlers(self._readers, self._offsets, config, runtime.observer)
        self._calls: dict[trio.lowlevel.Task, str] = {}
        self._events: deque[Event] = deque()
        self._is_processing = False
        self._stepped = trio.Event()

    def _open_readers(self, pauses: Pauses) -> Readers:
        """Return the readers for this kind of handler: a task for each claim, or a task for each stream."""
        handler, runtime = self._handler, self._runtime
        if isinstance(handler, StreamHandler):
            consume_stream = partial(awaited, handler.consume_stream, self._session)
            return StreamReaders(
                consume_stream, handler.streams, self.post, runtime.observer, pauses, runtime.handler_time
            )
        return ClaimReaders(partial(awaited, handler.consume_claim, self._session), self.post, runtime.observer, pauses)

    async def run(self) -> SessionOutcome:
        """Run the session, and return its outcome, failures included.

        Raises:
            BaseException: A cancellation, or an exception that is not an Exception. If there are failures, too, they
                are raised together as a group.
        """
        outcome = self._machine.outcome
        self.post(self._first)
        try:
            await self._run_tasks()
        except BaseException as error:
            if failures := outcome.all_failures:
                raise BaseExceptionGroup(outcome.text(self._runtime.group), [error, *failures]) from None
            raise
        return outcome

    def status(self) -> tuple[PartitionStatus, ...]:
        """Return the status of the owned partitions, including those that are being revoked."""
        now, machine, offsets = trio.current_time(), self._machine, self._offsets
        read = {
            claim.topic_partition: partition_status(
                claim,
                self._source.fetcher.feed_state(claim._consumer),
                offsets,
                now,
                wall_clock=self._runtime.wall_clock(),
                overdue=self._overdue.of(self._readers.holder(claim), now),
            )
            for claim in self._readers.claims
        }
        for partition in machine.owned - read.keys():
            # Its claim may have ended while its last commit is not done yet.
            is_over = machine.is_ending or partition in machine.revoking
            read[partition] = owned_status(partition, offsets, now - machine.revoking_since if is_over else None)
        return tuple(read[partition] for partition in sorted(read))

    # -- the lifetime of its tasks --------------------------------------------------------------------------

    async def _run_tasks(self) -> None:
        shield, running = trio.CancelScope(shield=True), trio.Event()
        async with trio.open_nursery() as nursery:
            # Not `nursery.start`: a task that shields itself would never end after a cancelled start.
            nursery.start_soon(self._run_services, shield, running)
            nursery.start_soon(self._watch_cancellation)
            try:
                await running.wait()
                await self._run_jobs()
            finally:
                try:
                    await self._shut_down()
                finally:
                    # Even if `cleanup` raises SystemExit, the shielded tasks must be cancelled.
                    shield.cancel()
                    nursery.cancel_scope.cancel()

    async def _run_services(self, shield: trio.CancelScope, running: trio.Event) -> None:
        with shield:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._source.fetcher.run)
                nursery.start_soon(self._offsets.run)
                nursery.start_soon(self._overdue.run)
                nursery.start_soon(self._watch_notices)
                nursery.start_soon(self._keep_deadline)
                running.set()

    async def _watch_cancellation(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.post(Cancelled())

    async def _watch_notices(self) -> None:
        # Read here while the session runs. Between two sessions `Sessions` reads the channel.
        async for notice in self._member.notices:
            self._notice(notice)

    def _notice(self, notice: Notice) -> None:
        match notice:
            case SubscriptionChanged():
                self.post(SubscriptionRead(self._member.wanted))
            case Left():
                pass  # the result of a leave that no caller waits for
            case _:
                self.post(notice)

    async def _keep_deadline(self) -> None:
        while True:
            deadline, stepped = self._machine.next_deadline(), self._stepped
            with trio.CancelScope(deadline=math.inf if deadline is None else deadline) as waiting:
                await stepped.wait()
            if waiting.cancelled_caught:
                for command in self._machine.handle_timer(trio.current_time()):
                    self._execute(command)

    # -- events and commands ----------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Pass an event to the machine, and execute its commands. Called by every part of the session."""
        self._events.append(event)
        if self._is_processing:  # a command has caused this event; the remaining commands are executed first
            return
        self._is_processing = True
        try:
            while self._events:
                commands = self._machine.receive(self._events.popleft(), trio.current_time())
                self._limits.shorten()
                for command in commands:
                    self._execute(command)
        finally:
            self._is_processing = False
            self._stepped.set()
            self._stepped = trio.Event()

    def _execute(self, command: Command) -> None:
        match command:
            case Observe(event=event):
                self._runtime.observer(event)
            case Post(event=request):
                self._member.post(request)
            case UpdateSession(generation=generation, owned=owned):
                self._source.logs.keep_ids({partition.topic for partition in owned})
                self._session._update(generation, by_topic(sorted(owned)))
            case StartPartitions(committed=committed):
                self._nursery.start_soon(self._start, self._starter.prepare(committed))
            case StopReaders(partitions=partitions, grace_ends=grace_ends):
                # Starts are cancelled first: a partition that starts after this stop would never stop.
                self._starter.cancel(partitions or ())
                stopped = self._readers.stop(partitions, grace_ends)
                self._source.fetcher.release(claim._consumer for claim in stopped)
            case BreakOffFetch():
                self._starter.break_off_fetch()
            case StopStarting():
                self._starter.stop_all()
                self._limits.commit.cancel()
                self._source.fetcher.stop()
            case DropOffsets(partitions=partitions):
                self._offsets.ledger.drop(partitions)
            case FindStuckTasks():
                self._find_stuck_tasks()

    def _find_stuck_tasks(self) -> None:
        """Report the stacks of tasks that still run. Python cannot stop a task that swallows its cancellation."""
        machine = self._machine
        reading = self._readers.tasks(None if machine.is_ending else machine.revoking)
        stuck = [*((name, task) for task, name in self._calls.items()), *reading.items()]
        for name, task in stuck:
            self._runtime.observer(TaskStuck(name, stack_of(task)))
        self.post(TasksStuck(tuple(name for name, _ in stuck)))

    # -- jobs, one after the other ------------------------------------------------------------------------------

    async def _run_jobs(self) -> None:
        """Run jobs until the session is ending, and all tasks of the handler have ended."""
        async with trio.open_nursery() as self._nursery:
            self._readers.run_in(self._nursery)
            while not self._machine.is_ending:
                if (job := self._machine.take_job()) is not None:
                    self.post(await self._run_job(job))
                else:
                    await self._stepped.wait()

    async def _shut_down(self) -> None:
        """Run the last calls and the last commit: shielded, but not beyond the deadline."""
        self.post(TasksEnded())
        with self._limits.end:
            while (job := self._machine.take_job()) is not None:
                self.post(await self._run_job(job))
        if self._limits.end.cancelled_caught:
            self.post(ShutdownCutOff())

    async def _run_job(self, job: Job) -> Event:
        match job:
            case FetchOffsets(partitions=partitions):
                try:
                    return OffsetsFetched(await self._starter.fetch_committed(partitions))
                except SarameyaError as error:
                    return OffsetsFailed(error)
            case Drain(partitions=partitions):
                not_started = await self._starter.wait_cancelled(partitions)
                await self._readers.drained(partitions)
                return Drained(not_started)
            case Commit(is_last=True):
                await self._offsets.commit_last()
                return CommitEnded()
            case Commit():
                with self._limits.commit_scope() as scope:
                    await self._offsets.commit_last()
                return CommitEnded(in_time=not scope.cancelled_caught)
            case CallHandler():
                return await self._call_handler(job)

    async def _call_handler(self, job: CallHandler) -> CallEnded:
        handler, session, limits = self._handler, self._session, self._limits
        partitions = list(job.partitions)
        match job.name:
            case "setup":
                call, scope = awaited(handler.setup, session), limits.grace_scope()
            case "partitions_assigned":
                call, scope = awaited(handler.partitions_assigned, session, partitions), limits.grace_scope()
            case "partitions_revoked":
                call = awaited(handler.partitions_revoked, session, partitions)
                scope = limits.release_scope(shield=job.shielded)
            case "partitions_lost":
                call = awaited(handler.partitions_lost, session, partitions)
                scope = limits.release_scope(shield=job.shielded)
            case _:
                call, scope = awaited(handler.cleanup, session), trio.CancelScope()
        await self._call(job.name, call, scope)
        return CallEnded(cut_off=scope.cancelled_caught)

    async def _start(self, batch: StartBatch) -> None:
        await self._call("start_offset", self._starter.start(batch), batch.scope)

    async def _call(self, name: str, call: Awaitable[None], scope: trio.CancelScope) -> None:
        """Run a call of the handler that is not a reader, and report its exception."""
        task = trio.lowlevel.current_task()
        self._calls[task] = name
        try:
            await run_guarded(call, scope, lambda error: self.post(CallFailed(name, error)))
        finally:
            del self._calls[task]
