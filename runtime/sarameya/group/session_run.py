"""The life of one session, from its assignment to its last commit. See "What happens in a session?" in ARCHITECTURE.md.

    start:    committed offsets
    setup:    handler.setup
    starts:   handler.start_offset -> the policy's offsets -> commit of those
    claims:   one task a claim, until the session ends
    ending:   fetching stops, claims' iterators end; after a grace the claims are cancelled
    finish:   handler.cleanup -> last commit, shielded from cancellation and bounded by the deadline

What ends a session: the group (a rebalance, a lost membership), the user (close, cancellation), a claim that
fails or returns, `session.end()`. Each calls `_end`, and the first one's reason stands.

The session's own services (fetcher, commits, the watch on the membership) are shielded: whoever cancels
`consume()` cancels the handler's tasks, and these go on until the last commit.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Awaitable, Mapping

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.fetcher import Fetcher
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import ClaimError, CommitError, RebalanceDeadlineError, SarameyaError
from sarameya.group.claim import Claim
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.member import CloseWanted, Member
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.session import Session
from sarameya.group.starts import Start, find_starts
from sarameya.model import CommittedOffset, Generation, TopicPartition, topic_partitions
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import (
    ClaimCancelled,
    ClaimEnded,
    ClaimStarted,
    CommitFailed,
    Observer,
    SessionEnded,
    SessionEnding,
    SessionStarted,
    TaskStuck,
)
from sarameya.protocol.fetch_cursor import FetchCursor
from sarameya.protocol.membership_messages import EndSession, Fail, LeaveWanted, StartSession
from sarameya.protocol.rebalance import decode_assignment

_LEAST_SECONDS = 1.0
"""What a session has to end in order, whatever its deadline."""

_UNWIND_SECONDS = 0.5
"""How long a task may take to unwind once it is cancelled, before it counts as stuck."""

_GRACE_SHARE = 0.8
"""Of the time until the deadline, what the claims may have at the most: cleanup and the last commit need the rest."""


@attrs.frozen(slots=True)
class Runtime:
    """What every session of a group works with."""

    group: str
    config: Config
    pool: BrokerPool
    metadata: MetadataRefresher
    observer: Observer


@attrs.define(slots=True)
class Outcome:
    """How a session ended. `deadline` is by when its member must have moved on."""

    reason: str = ""
    deadline: float = math.inf
    failures: list[Exception] = attrs.field(factory=list)
    lost: bool = False
    closing: bool = False
    rebalanced: bool = False
    """Ended by the group, in order, and by nothing else."""
    fatal: Exception | None = None


class SessionRun:
    """One run of one session. `run` is called once."""

    def __init__(self, start: StartSession, member: Member, handler: ConsumerGroupHandler, runtime: Runtime) -> None:
        self._generation: Generation = start.generation
        self._assignment, _ = decode_assignment(start.assignment)
        self._member = member
        self._handler = handler
        self._runtime = runtime
        self._outcome = Outcome()
        lookup = OffsetLookup(runtime.pool, runtime.metadata, runtime.config, runtime.observer)
        self._lookup = lookup
        self._fetcher = Fetcher(
            runtime.pool, runtime.metadata, lookup, runtime.config, runtime.observer, self._offset_reset
        )
        self._offsets = OffsetManager(runtime.group, start.generation, member, runtime.config, runtime.observer)
        self._session = Session(
            runtime.group,
            start.generation,
            self._assignment,
            self._offsets,
            end=self._end,
            is_lost=lambda: self._outcome.lost,
        )
        self._claims: list[Claim] = []
        self._running: dict[str, trio.lowlevel.Task] = {}
        self._ended = trio.Event()
        self._needs_cleanup = False
        self._start_scope = trio.CancelScope()
        self._claims_scope = trio.CancelScope()
        self._services_scope = trio.CancelScope(shield=True)
        self._services_running = trio.Event()
        self._finish_scope = trio.CancelScope(shield=True)
        self._grace = runtime.config.claim_grace
        self._deadline_scope = trio.CancelScope()

    async def run(self) -> Outcome:
        """Live the session. Failures are in the outcome; only cancellation is raised."""
        async with trio.open_nursery() as nursery:
            # Not `nursery.start`: a task that shields itself would outlive a cancelled start for ever.
            nursery.start_soon(self._run_services)
            nursery.start_soon(self._notice_cancellation)
            try:
                await self._services_running.wait()
                await self._work()
            finally:
                try:
                    await self._finish()
                finally:
                    # Whatever cleanup raises, also SystemExit: what is shielded must be told to end.
                    self._services_scope.cancel()
                    nursery.cancel_scope.cancel()
        return self._outcome

    # -- start, setup, claims -----------------------------------------------------------------------

    async def _work(self) -> None:
        committed: Mapping[TopicPartition, CommittedOffset | None] | None = None
        with self._start_scope:
            try:
                committed = await self._offsets.fetch(topic_partitions(self._assignment))
            except SarameyaError as error:
                self._fail("the group's offsets cannot be had", error)
        if committed is None or self._ended.is_set():
            return
        self._runtime.observer(SessionStarted(self._runtime.group, self._generation, self._assignment))
        with self._claims_scope:
            self._needs_cleanup = True
            if not await self._guarded("setup", self._handler.setup(self._session)) or self._ended.is_set():
                return
            starts: dict[TopicPartition, Start] = {}
            if await self._guarded("start_offset", self._find_starts(committed, starts)) and not self._ended.is_set():
                await self._run_claims(starts)

    async def _find_starts(
        self, committed: Mapping[TopicPartition, CommittedOffset | None], starts: dict[TopicPartition, Start]
    ) -> None:
        with trio.CancelScope() as self._start_scope:
            config = self._runtime.config
            starts.update(await find_starts(committed, self._handler, self._offsets, self._lookup, config))

    def _offset_reset(self, partition: TopicPartition, offset: int) -> None:
        """A position was moved by the policy: marks go on from there, and a rejoin does not resolve it anew."""
        moved = CommittedOffset(offset)
        ledger = self._offsets.ledger
        if (ledger.reset(partition, moved) or ledger.mark(partition, moved)) and self._runtime.config.autocommit:
            self._offsets.commit_nowait()

    async def _run_claims(self, starts: Mapping[TopicPartition, Start]) -> None:
        config = self._runtime.config
        consumers = [
            PartitionConsumer(FetchCursor(partition, start.offset), config.channel_buffer_fetches)
            for partition, start in starts.items()
        ]
        self._claims = [Claim(consumer, config) for consumer in consumers]
        if not consumers:
            await self._ended.wait()  # a member without partitions stays a member
            return
        self._fetcher.read(consumers)
        async with trio.open_nursery() as nursery:
            for claim in self._claims:
                start = starts[claim.topic_partition]
                self._runtime.observer(ClaimStarted(claim.topic_partition, start.offset, start.why))
                nursery.start_soon(self._run_claim, claim)

    async def _run_claim(self, claim: Claim) -> None:
        partition = claim.topic_partition
        name = f"claim of {partition}"
        self._running[name] = trio.lowlevel.current_task()
        try:
            await self._handler.consume_claim(self._session, claim)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is recorded, and raised by consume()
            self._claim_failed(claim, error)
        except BaseExceptionGroup as group:
            failed, others = group.split(Exception)
            if failed is not None:
                self._claim_failed(claim, failed)
            if others is not None:
                raise others from None
        except trio.Cancelled:
            if self._claims_scope.cancel_called:
                self._runtime.observer(ClaimCancelled(partition, self._grace))
            raise
        else:
            if not self._ended.is_set():
                self._end(f"{name} returned")
        finally:
            del self._running[name]
            self._runtime.observer(ClaimEnded(partition, claim.position))

    def _claim_failed(self, claim: Claim, error: Exception) -> None:
        if _is_commit_error(error):
            # The handler's own commit came too late: its generation is over, which is no failure of the handler.
            self._end(f"claim of {claim.topic_partition}: {error}", lost=True)
            return
        failure = ClaimError(claim.topic_partition, claim.position, self._generation.id, error)
        failure.__cause__ = error
        self._fail(f"claim of {claim.topic_partition} failed", failure)

    # -- ending -------------------------------------------------------------------------------------

    def _fail(self, reason: str, error: Exception) -> None:
        self._outcome.failures.append(error)
        self._end(reason)

    def _end(self, reason: str, *, lost: bool = False, deadline: float | None = None) -> None:
        """Ask claims to finish; the first reason stands, a later call can only hasten or lose."""
        now = trio.current_time()
        config, outcome = self._runtime.config, self._outcome
        wanted = now + config.rebalance_timeout if deadline is None else deadline
        # A deadline that is over when we hear of it (the coordinator was away) still leaves time to end in order.
        outcome.deadline = min(outcome.deadline, max(wanted, now + _LEAST_SECONDS))
        outcome.lost = outcome.lost or lost
        self._grace = min(config.claim_grace, _GRACE_SHARE * (outcome.deadline - now))
        self._claims_scope.deadline = min(self._claims_scope.deadline, now + self._grace)
        self._deadline_scope.deadline = self._finish_scope.deadline = outcome.deadline
        if self._ended.is_set():
            return
        outcome.reason = reason
        self._ended.set()
        self._runtime.observer(SessionEnding(self._runtime.group, self._generation, reason, lost))
        self._start_scope.cancel()
        self._fetcher.stop()
        for claim in self._claims:
            claim._end()

    async def _finish(self) -> None:
        """Cleanup and the last commit: shielded, but never beyond the deadline."""
        self._end_cancelled()  # unless it has ended already
        outcome, group = self._outcome, self._runtime.group
        with self._finish_scope:
            if self._needs_cleanup:
                await self._guarded("cleanup", self._handler.cleanup(self._session))
                self._needs_cleanup = False
            await self._last_commit()
        if self._finish_scope.cancelled_caught:
            if self._needs_cleanup:
                outcome.failures.append(RebalanceDeadlineError(f"cleanup of group {group!r} outlived the deadline"))
            else:
                self._runtime.observer(CommitFailed(group, "the last commit was not answered by the deadline"))
        self._runtime.observer(SessionEnded(group, self._generation, outcome.reason))

    async def _last_commit(self) -> None:
        if self._outcome.lost or not self._runtime.config.autocommit:
            return
        try:
            await self._offsets.commit()
        except SarameyaError as error:
            # What was marked is read again by whoever owns it next.
            self._runtime.observer(CommitFailed(self._runtime.group, str(error)))

    # -- services -----------------------------------------------------------------------------------

    async def _run_services(self) -> None:
        with self._services_scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._fetcher.run)
                nursery.start_soon(self._offsets.run)
                nursery.start_soon(self._watch_membership)
                nursery.start_soon(self._watch_deadline)
                self._services_running.set()

    async def _watch_membership(self) -> None:
        config = self._runtime.config
        async for notice in self._member.notices:
            match notice:
                case EndSession(reason=reason, lost=lost, deadline=deadline):
                    self._outcome.rebalanced = self._outcome.rebalanced or not (lost or self._ended.is_set())
                    self._end(reason, lost=lost, deadline=deadline)
                case CloseWanted():
                    self._outcome.closing = True
                    self._end("the group is closed", deadline=trio.current_time() + config.close_timeout)
                case Fail(error=error):
                    self._outcome.fatal = error
                    self._end(str(error), lost=True)

    async def _watch_deadline(self) -> None:
        """Python cannot stop a task that swallows its cancellation: at the deadline the member leaves without it."""
        with self._deadline_scope:
            await trio.sleep_forever()
        # What was cancelled at the deadline itself needs a moment to unwind.
        await trio.sleep(_UNWIND_SECONDS)
        if not self._running:
            return
        for name, task in self._running.items():
            self._runtime.observer(TaskStuck(name, _stack(task)))
        names = ", ".join(self._running)
        self._outcome.lost = True
        self._outcome.failures.append(RebalanceDeadlineError(f"{names} did not end by the rebalance deadline"))
        self._member.post(LeaveWanted(f"{names} is stuck"))

    async def _notice_cancellation(self) -> None:
        """`consume()` is cancelled: the handler's tasks are, and the session ends within the close timeout."""
        try:
            await trio.sleep_forever()
        finally:
            self._end_cancelled()

    def _end_cancelled(self) -> None:
        if not self._ended.is_set():
            self._end("cancelled", deadline=trio.current_time() + self._runtime.config.close_timeout)

    async def _guarded(self, name: str, work: Awaitable[None]) -> bool:
        """Run the handler's setup or cleanup; True if it did not fail."""
        self._running[name] = trio.lowlevel.current_task()
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the user's code: recorded, and raised by consume()
            if _is_commit_error(error):
                self._end(f"{name}: {error}", lost=True)
                return False
            error.add_note(f"in {name} of group {self._runtime.group!r}, generation {self._generation.id}")
            self._fail(f"{name} failed", error)
            return False
        finally:
            del self._running[name]
        return True


def _is_commit_error(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(_is_commit_error(e) for e in error.exceptions)
    return isinstance(error, CommitError)


def _stack(task: trio.lowlevel.Task) -> str:
    frames = traceback.StackSummary.extract(task.iter_await_frames())
    return f"{task.name}\n" + "".join(frames.format())
