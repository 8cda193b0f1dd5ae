"""The life of one session. See "What happens in a session?" in ARCHITECTURE.md.

    assignment:  committed offsets -> (the first time) handler.setup -> handler.partitions_assigned
                 -> handler.start_offset -> one task a claim, or the claims are dealt to the tasks of a
                 StreamHandler's streams; where the policy decides: its offsets -> commit of those -> their claims
    rebalance:   eager: the session ends. Cooperative: it goes on; commit, join, and of the next assignment only
                 the difference ends or begins
    ending:      fetching stops, claims' iterators end; after a grace the claims are cancelled
    finish:      handler.partitions_revoked or partitions_lost -> handler.cleanup -> last commit,
                 shielded from cancellation and bounded by the deadline

What ends a session: the group (a rebalance under an eager assignor, a lost membership), the user (close,
cancellation), a claim that fails or returns, `session.end()`. Each calls `_end`, and the first one's reason stands.

One task (`_work`) takes assignments one after the other; `_watch_membership` puts the latest one down for it, answers
a rebalance itself where nothing has to be given up first, and hastens what is under way. The session's own services
(fetcher, commits, the watches) are shielded: whoever cancels `consume()` cancels the handler's tasks, and these go on
until the last commit.

Left to others: the claims' tasks (`claims.py`, `streams.py`), finding out where partitions begin (`starting.py`), what
else the handler is told and how long that may take (`handler_calls.py`), and what outlives a deadline (`deadline.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import trio

from sarameya.errors import ClaimError, CommitError, HandlerError, RebalanceDeadlineError, SarameyaError
from sarameya.group.claim import Claim
from sarameya.group.deadline import Deadline, Tasks, in_order, most_of, stack_of
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_calls import HandlerCalls
from sarameya.group.member import CloseWanted, NewAssignment, SubscriptionChanged
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.outcome import Outcome
from sarameya.group.pauses import Pauses
from sarameya.group.session import Session
from sarameya.group.source import OpenSource, SessionMember, Surroundings
from sarameya.group.starting import Answers, Begin, Committed, Starting
from sarameya.group.starts import Start, find_starts
from sarameya.group.status import partition_status
from sarameya.group.streams import readers
from sarameya.model import CommittedOffset, TopicPartition, by_topic, topic_partitions
from sarameya.observe import (
    CallCancelled,
    ClaimStarted,
    CommitFailed,
    PartitionsAssigned,
    PartitionsRevoked,
    SessionEnded,
    SessionEnding,
    SessionStarted,
    TaskStuck,
)
from sarameya.protocol.membership_messages import Fail, JoinWanted, LeaveWanted, MembershipLost, PrepareRebalance
from sarameya.protocol.rebalance import diff
from sarameya.protocol.subscription import wants
from sarameya.status import Activity, PartitionStatus


class SessionRun:
    """One run of one session. `run` is called once."""

    def __init__(
        self,
        first: NewAssignment,
        member: SessionMember,
        handler: ConsumerGroupHandler,
        runtime: Surroundings,
        pauses: Pauses,
        open_source: OpenSource,
    ) -> None:
        self._member = member
        self._handler = handler
        self._runtime = runtime
        self._generation = first.generation
        self._outcome = Outcome()
        self._offsets = OffsetManager(
            runtime.group, member, runtime.config, runtime.observer, runtime.backoff, runtime.interceptors.committed
        )
        source = open_source(self._offsets)
        self._lookup, self._fetcher, self._logs = source.lookup, source.feeds, source.logs
        self._session = Session(
            runtime.group,
            first.generation,
            self._offsets,
            pauses,
            self._logs,
            end=self._end,
            is_lost=lambda: self._outcome.lost,
            tell=runtime.observer,
            group_instance_id=runtime.config.group_instance_id,
        )
        self._deadline = Deadline()
        self._calls = HandlerCalls(
            handler,
            self._session,
            self._deadline,
            on_failure=self._call_failed,
            on_late=self._call_was_late,
            on_cut_off=self._call_was_cut_off,
        )
        self._claims = readers(
            handler,
            self._session,
            on_failure=self._reader_failed,
            on_return=self._end,
            observer=runtime.observer,
            pauses=pauses,
        )
        # What is assigned to us and not given up; what is being given up.
        self._owned: frozenset[TopicPartition] = frozenset()
        self._leaving: frozenset[TopicPartition] = frozenset()
        self._giving_up_since = 0.0
        # What the group wants of `_work`: the latest assignment, and a rebalance that cannot be answered at once.
        self._next: NewAssignment | None = first
        self._rebalance: PrepareRebalance | None = None
        self._wanted = trio.Event()
        self._ended = trio.Event()
        self._starting = Starting(self._find_starts, self._begin)
        self._fetch_scope = trio.CancelScope()
        self._committing = trio.CancelScope()
        self._services_scope = trio.CancelScope(shield=True)
        self._services_running = trio.Event()
        self._finish_scope = trio.CancelScope(shield=True)

    async def run(self) -> Outcome:
        """Live the session. Failures are in the outcome; raised are cancellation and what is no Exception, and with
        those, since there is no outcome then, the failures too."""
        try:
            await self._live()
        except BaseException as end:
            if failures := self._outcome.all_failures:
                raise BaseExceptionGroup(self._outcome.text(self._runtime.group), [end, *failures]) from None
            raise
        # A rebalance that was not answered yet is answered by the next join: what was assigned before it is over.
        self._outcome.next = self._next if self._rebalance is None else None
        return self._outcome

    def status(self) -> tuple[PartitionStatus, ...]:
        """Of what is assigned, and of what is still being given up."""
        now, fetcher, offsets = trio.current_time(), self._fetcher, self._offsets
        read = {
            claim.topic_partition: partition_status(claim, fetcher.feeding(claim._consumer), offsets, now)
            for claim in self._claims.claims
        }
        for partition in self._owned - read.keys():
            marked, committed = offsets.ledger.known(partition)
            # Its claim may have ended, and its last commit be still to come.
            is_over = self._ended.is_set() or partition in self._leaving
            read[partition] = PartitionStatus(
                partition=partition,
                activity=Activity.GIVING_UP if is_over else Activity.STARTING,
                seconds=now - self._giving_up_since if is_over else 0.0,
                marked=marked,
                committed=committed,
            )
        return tuple(read[partition] for partition in sorted(read))

    async def _live(self) -> None:
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

    # -- assignments and rebalances, one after the other --------------------------------------------

    async def _work(self) -> None:
        async with trio.open_nursery() as nursery:
            self._claims.run_in(nursery)
            self._starting.run_in(nursery)
            while not self._ended.is_set():
                if self._next is not None:
                    new, self._next = self._next, None
                    await self._reassign(new)
                elif self._rebalance is not None:
                    await self._give_up(self._unsubscribed(), self._rebalance.deadline)
                    if self._rebalance is not None:  # else it has been answered, and an assignment has come
                        self._rejoin(self._rebalance.reason)
                else:
                    self._wanted = trio.Event()
                    await self._wanted.wait()

    async def _reassign(self, new: NewAssignment) -> None:
        """Let go of what is no longer assigned, and join again for that; begin with what is new."""
        config, assigned = self._runtime.config, topic_partitions(new.assignment)
        change = diff(self._calls.told, assigned)
        self._generation = new.generation
        self._own(frozenset(assigned) | frozenset(change.revoked))
        self._runtime.observer(PartitionsAssigned(self._runtime.group, new.generation, change.added, change.kept))
        if change.revoked:
            within = config.rebalance_timeout - config.rebalance_margin
            await self._give_up(change.revoked, trio.current_time() + within)
        if change.revoked or diff(topic_partitions(new.claimed), assigned).revoked:
            self._rejoin("partitions were given up")
        elif self._rebalance is not None:
            self._rejoin(self._rebalance.reason)
        begun = self._claims.partitions | self._starting.partitions
        await self._take_on([partition for partition in assigned if partition not in begun])

    def _unsubscribed(self) -> list[TopicPartition]:
        """What the user no longer wants. (A topic that is missing from the metadata may be back at once.)"""
        wanted = self._member.wanted
        return [partition for partition in self._owned if wanted is None or not wants(wanted, partition.topic)]

    def _rejoin(self, reason: str) -> None:
        self._rebalance = None
        self._lift()
        if not self._ended.is_set():
            self._member.post(JoinWanted(reason, by_topic(sorted(self._owned)), self._generation.id))

    async def _give_up(self, partitions: Iterable[TopicPartition], deadline: float) -> None:
        """End these claims, and only these: they finish, the handler is told, their marks are committed."""
        self._leaving = leaving = frozenset(partitions)
        if not leaving:
            return
        self._giving_up_since = trio.current_time()
        self._runtime.observer(PartitionsRevoked(self._runtime.group, self._generation, tuple(sorted(leaving))))
        self._hasten(deadline)
        await self._starting.stop(leaving)
        await self._claims.ended(leaving)
        told = leaving & self._calls.told
        if told and not self._ended.is_set():
            await self._calls.revoked(told)
        if told and not self._ended.is_set():
            await self._commit_given_up()
        if not self._ended.is_set():  # else all is given up at once, in `_finish`
            self._offsets.ledger.drop(leaving)
            self._own(self._owned - leaving)
            self._leaving = frozenset()
            self._lift()

    async def _commit_given_up(self) -> None:
        with trio.CancelScope(deadline=self._deadline.at) as self._committing:
            await self._commit()
        if self._committing.cancelled_caught and not self._ended.is_set():  # else there is another one, the last
            late = "the commit of what was given up was not answered by the deadline"
            self._runtime.observer(CommitFailed(self._runtime.group, late))

    async def _take_on(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin to read partitions. An assignment that comes before their offsets are had goes first."""
        committed: Mapping[TopicPartition, CommittedOffset | None] | None = None
        with trio.CancelScope() as self._fetch_scope:
            if not self._must_move_on:
                await self._logs.reach(partitions)
                try:
                    found = await self._offsets.fetch(partitions)
                    # A mark that is still to be committed counts: of a start that was resolved, and broken off before
                    # its commit was answered. Resolved anew, `newest` would skip what has come since.
                    committed = {partition: self._offsets.ledger.marked(partition) for partition in found}
                except CommitError:  # whatever ended the membership has been said, or will be
                    self._end("the membership is over", lost=True)
                except SarameyaError as error:
                    self._fail("the group's offsets cannot be had", error)
        if committed is None or self._ended.is_set():
            return
        await self._tell(partitions)
        if not self._ended.is_set():
            self._starting.start(committed)

    async def _tell(self, partitions: Sequence[TopicPartition]) -> None:
        """The handler is told what is new to it, and before the first time set up."""
        if not self._calls.needs_cleanup:
            self._runtime.observer(SessionStarted(self._runtime.group, self._generation, self._session.claims))
            await self._calls.setup()
        if not self._ended.is_set():
            await self._calls.assigned(partitions)

    @property
    def _must_move_on(self) -> bool:
        return self._ended.is_set() or self._next is not None or self._rebalance is not None

    async def _find_starts(self, committed: Committed, answers: Answers, begin: Begin) -> None:
        handler, offsets, lookup, config = self._handler, self._offsets, self._lookup, self._runtime.config
        is_new = self._member.growth.is_new
        finding = find_starts(committed, handler, offsets, lookup, config, is_new, answers, begin)
        await self._calls.call("start_offset", finding)

    def _begin(self, starts: Mapping[TopicPartition, Start]) -> None:
        if self._ended.is_set():
            return
        consumers = [
            self._fetcher.feed(tp, start.offset, start.leader_epoch, start.told_in, self._logs.topic_id(tp.topic))
            for tp, start in starts.items()
        ]
        for partition, start in starts.items():
            self._runtime.observer(ClaimStarted(partition, start.offset, start.why))
        config, intercept = self._runtime.config, self._runtime.interceptors.consume
        self._claims.start(Claim(consumer, config, intercept) for consumer in consumers)
        self._fetcher.read(consumers)

    def _own(self, partitions: frozenset[TopicPartition]) -> None:
        self._owned = partitions
        self._logs.keep({partition.topic for partition in partitions})
        # Commits go out under the group's generation, also while what it means for us waits for a slow hook.
        generation = self._next.generation if self._next is not None else self._generation
        self._session._moved(generation, by_topic(sorted(partitions)))

    # -- failures -------------------------------------------------------------------------------------

    def _reader_failed(self, name: str, claim: Claim | None, error: Exception) -> None:
        generation = self._generation.id
        failure: SarameyaError
        if claim is not None:
            failure = ClaimError(claim.topic_partition, claim.position, generation, error)
        else:
            failure = HandlerError(f"{name}, generation {generation}: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self._raised(name, error, failure)

    def _call_failed(self, name: str, error: Exception) -> None:
        error.add_note(f"in {name} of group {self._runtime.group!r}, generation {self._generation.id}")
        self._raised(name, error, error)

    def _call_was_cut_off(self, name: str) -> None:
        """What it was to set up may not be: nothing may be read on the strength of it."""
        self._runtime.observer(CallCancelled(self._runtime.group, self._generation, name))
        self._end(f"{name} was cut off")

    def _call_was_late(self, name: str) -> None:
        late = RebalanceDeadlineError(f"{name} of group {self._runtime.group!r} outlived the deadline")
        self._outcome.failures.append(late)
        if not self._ended.is_set():
            self._end(f"{name} is too slow")

    def _raised(self, name: str, error: Exception, failure: Exception) -> None:
        if _is_commit_error(error):
            # The handler's own commit came too late: its generation is over, which is no failure of the handler.
            self._end(f"{name}: {error}", lost=True)
        else:
            self._fail(f"{name} failed", failure)

    def _fail(self, reason: str, error: Exception) -> None:
        self._outcome.failures.append(error)
        self._end(reason)

    # -- ending ---------------------------------------------------------------------------------------

    def _end(self, reason: str, *, lost: bool = False, deadline: float | None = None) -> None:
        """Ask claims to finish; the first reason stands, a later call can only hasten or lose."""
        now = trio.current_time()
        outcome = self._outcome
        wanted = now + self._runtime.config.rebalance_timeout if deadline is None else deadline
        # A deadline that is over when we hear of it (the coordinator was away) still leaves time to end in order.
        outcome.deadline = min(outcome.deadline, in_order(min(wanted, self._deadline.at)))
        outcome.lost = outcome.lost or lost
        if not self._ended.is_set():
            self._deadline.grant(outcome.deadline)
            outcome.reason, self._giving_up_since = reason, now
            self._ended.set()
            self._wanted.set()
            self._runtime.observer(SessionEnding(self._runtime.group, self._generation, reason, lost))
            self._fetch_scope.cancel()
            self._committing.cancel()
            self._starting.stop_all()
            self._fetcher.stop()
        self._leaving = self._claims.partitions
        self._hasten(outcome.deadline)
        self._finish_scope.deadline = outcome.deadline

    def _hasten(self, deadline: float) -> None:
        """What is being given up has until `deadline`: claims a grace, then they are cancelled. Only ever earlier."""
        now = trio.current_time()
        grace_ends = now + min(self._runtime.config.claim_grace, most_of(deadline) - now)
        self._deadline.hasten(deadline)
        self._calls.hasten(grace_ends)
        self._committing.deadline = min(self._committing.deadline, self._deadline.at)
        ending = self._ended.is_set()
        asked = self._claims.ask_all(grace_ends) if ending else self._claims.ask(self._leaving, grace_ends)
        self._fetcher.release(claim._consumer for claim in asked)

    def _lift(self) -> None:
        """Nothing is being given up, and nobody waits for us."""
        if not self._ended.is_set():
            self._calls.lift()
            self._deadline.lift()

    async def _finish(self) -> None:
        """What the handler is told at the end, and the last commit: shielded, but never beyond the deadline."""
        if not self._ended.is_set():
            self._end_cancelled()
        outcome, group = self._outcome, self._runtime.group
        # What has come back from behind the deadline leaves a moment, too.
        outcome.deadline = self._finish_scope.deadline = in_order(outcome.deadline)
        self._deadline.grant(outcome.deadline)
        with self._finish_scope:
            await self._calls.finish(lost=outcome.lost, deadline=outcome.deadline)
            await self._commit()
        if self._finish_scope.cancelled_caught:
            if self._calls.needs_cleanup:
                self._call_was_late("cleanup")
            else:
                self._runtime.observer(CommitFailed(group, "the last commit was not answered by the deadline"))
        self._runtime.observer(SessionEnded(group, self._generation, outcome.reason))

    async def _commit(self) -> None:
        """With autocommit, commit what is marked before it is given up."""
        if self._outcome.lost or not self._runtime.config.autocommit:
            return
        try:
            await self._offsets.commit()
        except SarameyaError as error:
            # What was marked is read again by whoever owns it next.
            self._runtime.observer(CommitFailed(self._runtime.group, str(error)))

    # -- services -------------------------------------------------------------------------------------

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
                case NewAssignment():
                    self._next, self._rebalance = notice, None
                    self._session._moved(notice.generation, self._session.claims)
                    self._fetch_scope.cancel()
                    if not self._leaving:
                        self._lift()
                case PrepareRebalance():
                    self._prepare_rebalance(notice)
                case MembershipLost(reason=reason):
                    self._next = None
                    self._end(reason, lost=True)
                case CloseWanted(reason=reason):
                    self._outcome.closing = True
                    self._end(reason, deadline=trio.current_time() + config.close_timeout)
                case SubscriptionChanged() if self._member.wanted is None:
                    self._end("the subscription was dropped", deadline=trio.current_time() + config.close_timeout)
                case Fail(error=error):
                    self._outcome.fatal = error
                    self._end(str(error), lost=True)
            self._wanted.set()

    def _prepare_rebalance(self, rebalance: PrepareRebalance) -> None:
        """Eager assignors want all given up before the join, so the session ends; cooperative ones what is no longer
        subscribed to, if anything is."""
        if self._ended.is_set() or not self._member.is_cooperative:
            self._outcome.rebalanced = self._outcome.rebalanced or not self._ended.is_set()
            self._next = None
            self._end(rebalance.reason, deadline=rebalance.deadline)
        elif self._leaving or self._next is not None or self._unsubscribed():
            self._rebalance = rebalance
            self._hasten(rebalance.deadline)
            self._fetch_scope.cancel()
        else:
            self._rejoin(rebalance.reason)

    async def _watch_deadline(self) -> None:
        """What outlives the deadline is told, and the member leaves without it."""
        self._leave_without(
            await self._deadline.outlived_by(lambda: {**self._calls.tasks, **self._claims.tasks(self._leaving)})
        )

    def _leave_without(self, stuck: Tasks) -> None:
        for name, task in stuck.items():
            self._runtime.observer(TaskStuck(name, stack_of(task)))
        names = ", ".join(stuck)
        self._end(f"{names} did not end by the rebalance deadline", lost=True)
        self._outcome.failures.append(RebalanceDeadlineError(f"{names} did not end by the rebalance deadline"))
        self._member.post(LeaveWanted(f"{names} is stuck"))

    async def _notice_cancellation(self) -> None:
        """`consume()` is cancelled: the handler's tasks are, and the session ends within the close timeout."""
        try:
            await trio.sleep_forever()
        finally:
            self._end_cancelled()

    def _end_cancelled(self) -> None:
        self._end("cancelled", deadline=trio.current_time() + self._runtime.config.close_timeout)


def _is_commit_error(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(_is_commit_error(e) for e in error.exceptions)
    return isinstance(error, CommitError)
