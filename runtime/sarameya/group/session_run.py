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

One task (`_work`) takes assignments one after the other; `_watch_membership` puts the latest one on its agenda, answers
a rebalance itself where nothing has to be given up first, and hastens what is under way. The session's own services
(fetcher, commits, the watches) are shielded (`lifetime.py`): whoever cancels `consume()` cancels the handler's tasks,
and these go on until the last commit.

Left to others: the claims' tasks (`claims.py`, `streams.py`), partitions on their way to them (`taking_on.py`), what
else the handler is told and how long that may take (`handler_calls.py`), the commits of what is given up
(`final_commits.py`), and what outlives a deadline (`deadline.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import trio

from sarameya.errors import CommitError, RebalanceDeadlineError, SarameyaError
from sarameya.group.agenda import Agenda
from sarameya.group.claim import Claim
from sarameya.group.deadline import Deadline, Tasks, in_order, most_of
from sarameya.group.failures import is_of_commits, reader_failure
from sarameya.group.final_commits import FinalCommits
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_calls import HandlerCalls
from sarameya.group.holdings import Holdings
from sarameya.group.lifetime import live
from sarameya.group.member import CloseWanted, NewAssignment, SubscriptionChanged
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.outcome import Outcome
from sarameya.group.overdue import OverdueHandlers
from sarameya.group.pauses import Pauses
from sarameya.group.session import Session
from sarameya.group.source import OpenSource, SessionMember, Surroundings
from sarameya.group.stacks import stack_of
from sarameya.group.starting import Answers, Begin, Committed
from sarameya.group.starts import find_starts
from sarameya.group.status import owned_status, partition_status
from sarameya.group.streams import readers
from sarameya.group.taking_on import TakingOn
from sarameya.model import Generation, TopicPartition, by_topic, topic_partitions
from sarameya.observe import (
    CallCancelled,
    PartitionsAssigned,
    PartitionsRevoked,
    SessionEnded,
    SessionEnding,
    SessionStarted,
    TaskStuck,
)
from sarameya.protocol.membership_messages import Fail, JoinWanted, LeaveWanted, MembershipLost, PrepareRebalance
from sarameya.protocol.rebalance import diff
from sarameya.status import PartitionStatus


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
        self._lookup, self._fetcher = source.lookup, source.feeds
        self._session = Session(
            runtime.group,
            first.generation,
            self._offsets,
            pauses,
            source.logs,
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
            handler_time=runtime.handler_time,
        )
        self._overdue = OverdueHandlers(self._claims, self._offsets, runtime.config, runtime.observer)
        self._taking_on = TakingOn(
            runtime,
            source,
            self._offsets,
            tell=self._tell,
            find=self._find_starts,
            start=self._claims.start,
            on_failure=self._offsets_failed,
        )
        self._commits = FinalCommits(runtime, self._offsets)
        self._holdings = Holdings(self._session, source.logs)
        self._agenda = Agenda(first)
        self._ended = trio.Event()
        self._finish_scope = trio.CancelScope(shield=True)

    async def run(self) -> Outcome:
        """Live the session. Failures are in the outcome; raised are cancellation and what is no Exception, and with
        those, since there is no outcome then, the failures too."""
        try:
            await live(self._work, self._finish, self._start_services, self._end_cancelled)
        except BaseException as end:
            if failures := self._outcome.all_failures:
                raise BaseExceptionGroup(self._outcome.text(self._runtime.group), [end, *failures]) from None
            raise
        self._outcome.next = self._agenda.left_over
        return self._outcome

    def status(self) -> tuple[PartitionStatus, ...]:
        """Of what is assigned, and of what is still being given up."""
        now, fetcher, offsets, held = trio.current_time(), self._fetcher, self._offsets, self._holdings
        read = {
            claim.topic_partition: partition_status(
                claim,
                fetcher.feeding(claim._consumer),
                offsets,
                now,
                wall_clock=self._runtime.wall_clock(),
                overdue=self._overdue.of(self._claims.holder(claim), now),
            )
            for claim in self._claims.claims
        }
        for partition in held.owned - read.keys():
            # Its claim may have ended, and its last commit be still to come.
            is_over = self._ended.is_set() or partition in held.leaving
            read[partition] = owned_status(partition, offsets, now - held.leaving_since if is_over else None)
        return tuple(read[partition] for partition in sorted(read))

    # -- assignments and rebalances, one after the other --------------------------------------------

    async def _work(self) -> None:
        async with trio.open_nursery() as nursery:
            self._claims.run_in(nursery)
            self._taking_on.run_in(nursery)
            while not self._ended.is_set():
                if (new := self._agenda.take_assignment()) is not None:
                    await self._reassign(new)
                elif (rebalance := self._agenda.rebalance) is not None:
                    await self._give_up(self._unsubscribed(), rebalance.deadline)
                    if self._agenda.rebalance is not None:  # else it has been answered, and an assignment has come
                        self._rejoin(self._agenda.rebalance.reason)
                else:
                    await self._agenda.news()

    async def _reassign(self, new: NewAssignment) -> None:
        """Let go of what is no longer assigned, and join again for that; begin with what is new."""
        config, assigned = self._runtime.config, topic_partitions(new.assignment)
        change = diff(self._calls.told, assigned)
        self._generation = new.generation
        self._holdings.own(frozenset(assigned) | frozenset(change.revoked), self._commit_generation)
        self._runtime.observer(PartitionsAssigned(self._runtime.group, new.generation, change.added, change.kept))
        if change.revoked:
            within = config.rebalance_timeout - config.rebalance_margin
            await self._give_up(change.revoked, trio.current_time() + within)
        if change.revoked or diff(topic_partitions(new.claimed), assigned).revoked:
            self._rejoin("partitions were given up")
        elif self._agenda.rebalance is not None:
            self._rejoin(self._agenda.rebalance.reason)
        begun = self._claims.partitions | self._taking_on.partitions
        if not self._ended.is_set() and self._agenda.is_empty:
            await self._taking_on.take_on([partition for partition in assigned if partition not in begun])

    def _unsubscribed(self) -> list[TopicPartition]:
        return self._holdings.unsubscribed(self._member.wanted)

    def _rejoin(self, reason: str) -> None:
        self._agenda.rebalance = None
        self._lift()
        if not self._ended.is_set():
            self._member.post(JoinWanted(reason, by_topic(sorted(self._holdings.owned)), self._generation.id))

    async def _give_up(self, partitions: Iterable[TopicPartition], deadline: float) -> None:
        """End these claims, and only these: they finish, the handler is told, their marks are committed."""
        leaving = frozenset(partitions)
        if not leaving:
            return
        self._holdings.leave(leaving, trio.current_time())
        self._runtime.observer(PartitionsRevoked(self._runtime.group, self._generation, tuple(sorted(leaving))))
        self._hasten(deadline)
        await self._taking_on.stop(leaving)
        await self._claims.ended(leaving)
        told = leaving & self._calls.told
        if told and not self._ended.is_set():
            await self._calls.revoked(told)
        if told and not self._ended.is_set():
            in_time = await self._commits.commit_by(self._deadline.at)
            if not (in_time or self._ended.is_set()):  # where it has ended there is another one, the last
                self._commits.failed("the commit of what was given up was not answered by the deadline")
        if not self._ended.is_set():  # else all is given up at once, in `_finish`
            self._offsets.ledger.drop(leaving)
            self._holdings.left(self._commit_generation)
            self._lift()

    async def _tell(self, partitions: Sequence[TopicPartition]) -> None:
        """The handler is told what is new to it, and before the first time set up."""
        if not self._calls.needs_cleanup:
            self._runtime.observer(SessionStarted(self._runtime.group, self._generation, self._session.claims))
            await self._calls.setup()
        if not self._ended.is_set():
            await self._calls.assigned(partitions)

    async def _find_starts(self, committed: Committed, answers: Answers, begin: Begin) -> None:
        handler, offsets, lookup, config = self._handler, self._offsets, self._lookup, self._runtime.config
        is_new = self._member.growth.is_new
        finding = find_starts(committed, handler, offsets, lookup, config, is_new, answers, begin)
        await self._calls.call("start_offset", finding)

    @property
    def _commit_generation(self) -> Generation:
        """Commits go out under the group's generation, also while what it means for us waits for a slow hook."""
        return self._agenda.assignment.generation if self._agenda.assignment is not None else self._generation

    # -- failures -------------------------------------------------------------------------------------

    def _reader_failed(self, name: str, claim: Claim | None, error: Exception) -> None:
        self._raised(name, error, reader_failure(name, claim, self._generation.id, error))

    def _offsets_failed(self, error: SarameyaError) -> None:
        if isinstance(error, CommitError):  # whatever ended the membership has been said, or will be
            self._end("the membership is over", lost=True)
        else:
            self._fail("the group's offsets cannot be had", error)

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
        if is_of_commits(error):
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
            outcome.reason, self._holdings.leaving_since = reason, now
            self._ended.set()
            self._agenda.wake()
            self._runtime.observer(SessionEnding(self._runtime.group, self._generation, reason, lost))
            self._taking_on.end()
            self._commits.cancel()
            self._fetcher.stop()
        self._holdings.leaving = self._claims.partitions
        self._hasten(outcome.deadline)
        self._finish_scope.deadline = outcome.deadline

    def _hasten(self, deadline: float) -> None:
        """What is being given up has until `deadline`: claims a grace, then they are cancelled. Only ever earlier."""
        now = trio.current_time()
        grace_ends = now + min(self._runtime.config.claim_grace, most_of(deadline) - now)
        self._deadline.hasten(deadline)
        self._calls.hasten(grace_ends)
        self._commits.hasten(self._deadline.at)
        ending = self._ended.is_set()
        asked = self._claims.ask_all(grace_ends) if ending else self._claims.ask(self._holdings.leaving, grace_ends)
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
        outcome = self._outcome
        # What has come back from behind the deadline leaves a moment, too.
        outcome.deadline = self._finish_scope.deadline = in_order(outcome.deadline)
        self._deadline.grant(outcome.deadline)
        with self._finish_scope:
            await self._calls.finish(lost=outcome.lost, deadline=outcome.deadline)
            if not outcome.lost:
                await self._commits.commit()
        if self._finish_scope.cancelled_caught:
            if self._calls.needs_cleanup:
                self._call_was_late("cleanup")
            else:
                self._commits.failed("the last commit was not answered by the deadline")
        self._runtime.observer(SessionEnded(self._runtime.group, self._generation, outcome.reason))

    # -- services -------------------------------------------------------------------------------------

    async def _start_services(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._fetcher.run)
        nursery.start_soon(self._offsets.run)
        nursery.start_soon(self._overdue.run)
        nursery.start_soon(self._watch_membership)
        nursery.start_soon(self._watch_deadline)

    async def _watch_membership(self) -> None:
        config = self._runtime.config
        async for notice in self._member.notices:
            match notice:
                case NewAssignment():
                    self._agenda.assigned(notice)
                    self._session._moved(notice.generation, self._session.claims)
                    self._taking_on.make_way()
                    if not self._holdings.leaving:
                        self._lift()
                case PrepareRebalance():
                    self._prepare_rebalance(notice)
                case MembershipLost(reason=reason):
                    self._agenda.assignment = None
                    self._end(reason, lost=True)
                case CloseWanted(reason=reason):
                    self._outcome.closing = True
                    self._end(reason, deadline=trio.current_time() + config.close_timeout)
                case SubscriptionChanged() if self._member.wanted is None:
                    self._end("the subscription was dropped", deadline=trio.current_time() + config.close_timeout)
                case Fail(error=error):
                    self._outcome.fatal = error
                    self._end(str(error), lost=True)
            self._agenda.wake()

    def _prepare_rebalance(self, rebalance: PrepareRebalance) -> None:
        """Eager assignors want all given up before the join, so the session ends; cooperative ones what is no longer
        subscribed to, if anything is."""
        if self._ended.is_set() or not self._member.is_cooperative:
            self._outcome.rebalanced = self._outcome.rebalanced or not self._ended.is_set()
            self._agenda.assignment = None
            self._end(rebalance.reason, deadline=rebalance.deadline)
        elif self._holdings.leaving or self._agenda.assignment is not None or self._unsubscribed():
            self._agenda.rebalance = rebalance
            self._hasten(rebalance.deadline)
            self._taking_on.make_way()
        else:
            self._rejoin(rebalance.reason)

    async def _watch_deadline(self) -> None:
        """What outlives the deadline is told, and the member leaves without it."""
        held, calls, claims = self._holdings, self._calls, self._claims
        stuck = await self._deadline.outlived_by(lambda: {**calls.tasks, **claims.tasks(held.leaving)})
        self._leave_without(stuck)

    def _leave_without(self, stuck: Tasks) -> None:
        for name, task in stuck.items():
            self._runtime.observer(TaskStuck(name, stack_of(task)))
        names = ", ".join(stuck)
        self._end(f"{names} did not end by the rebalance deadline", lost=True)
        self._outcome.failures.append(RebalanceDeadlineError(f"{names} did not end by the rebalance deadline"))
        self._member.post(LeaveWanted(f"{names} is stuck"))

    def _end_cancelled(self) -> None:
        """`consume()` is cancelled: the handler's tasks are, and the session ends within the close timeout."""
        self._end("cancelled", deadline=trio.current_time() + self._runtime.config.close_timeout)
