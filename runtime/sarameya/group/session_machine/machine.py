"""The state machine of a session: events in, commands and jobs out. Pure.

`transitions.py` has the table of states. The machine does no I/O and has no clock: `runner.py` executes its commands,
runs its `job`, and reports the result as an event. All assignors use the same steps:

    assignment   Revoked partitions: their readers stop (DRAINING), the handler is called (REVOKING), marks are
                 committed (COMMITTING), and the member rejoins. New partitions: their committed offsets are fetched
                 (FETCHING), `setup` is called once for the session (SETTING_UP), `partitions_assigned` is called
                 (ASSIGNING), and the partitions start, while the machine continues with the next event.
    rebalance    Eager assignors: the session ends. Cooperative assignors: the member rejoins at once, with all
                 partitions that it owns. If it has unsubscribed from a topic, its partitions are revoked first.
    end          All readers stop (ENDING). The last calls of the handler follow (RELEASING, CLEANING_UP), then the last
                 commit (CLOSING).

Rules that are easily broken, checked by `tests/model/test_session_model.py` and `tests/group`:

- Revoked partitions are committed, or lost, before the join that no longer names them as owned.
- A newer assignment replaces an assignment that waits. A rebalance waits, with its deadline, if the member cannot
  rejoin at once.
- The first reason for the end is kept. A later reason can only move the deadline to an earlier time, or lose the
  membership.
- After `setup` was called, `cleanup` is always called. No partition starts once the session is ending.
- A lost session commits nothing.
- A JoinWanted answers one rebalance: the machine posts it in one place (`_rejoin`), names the generation that it
  answers, and drops a pending rebalance when it posts. A second JoinWanted in the next generation would cause another
  rebalance.
- The member rejoins after partitions were revoked. It also rejoins if its last join named partitions as owned that the
  assignment lacks: until it joins without them, the leader assigns them to no other member (KIP-429).
- A waiting rebalance shortens the time of the running job. If the session ends first, the next join answers the
  rebalance (`tests/group/test_waiting_rebalances.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs

from sarameya.errors import CommitError, RebalanceDeadlineError, SarameyaError
from sarameya.group.membership.notices import CloseWanted, NewAssignment
from sarameya.group.session_machine.deadline import RevocationDeadline
from sarameya.group.session_machine.failures import is_late_commit, reader_failure
from sarameya.group.session_machine.messages import (
    BreakOffFetch,
    CallEnded,
    CallFailed,
    CallHandler,
    Cancelled,
    Command,
    Commit,
    CommitEnded,
    CommittedOffsets,
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
    ReaderFailed,
    ReaderReturned,
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
from sarameya.group.session_machine.transitions import SHUTTING_DOWN, SessionInput, SessionState, next_state
from sarameya.model import Generation, TopicPartition, by_topic, topic_partitions
from sarameya.observe import (
    CallCancelled,
    CommitFailed,
    PartitionsAssigned,
    PartitionsRevoked,
    SessionEnded,
    SessionEnding,
    SessionStarted,
)
from sarameya.protocol.membership.messages import Fail, JoinWanted, LeaveWanted, MembershipLost, PrepareRebalance
from sarameya.protocol.subscription import Wanted, wants


@attrs.frozen(slots=True, kw_only=True)
class SessionOptions:
    """The options of `Config` and of the member that the machine uses. Times are in seconds."""

    group: str
    is_cooperative: bool
    rebalance_timeout: float
    rebalance_margin: float
    claim_grace: float
    close_timeout: float


class SessionMachine:
    """The state machine of a session.

    Attributes:
        state: The state in the table.
        job: The job that the runner has to start; None if it has to wait for events.
        generation: The generation whose assignment was applied last.
        owned: The partitions that are assigned to this member and not revoked yet.
        revoking: The owned partitions that are being revoked.
        revoking_since: The start of that revocation or, once the session is ending, the start of its end.
        deadline: The deadline of the revocation and of the end; only the machine moves it.
        outcome: The outcome of the session, as far as it is known.
    """

    def __init__(self, options: SessionOptions, generation: Generation, wanted: Wanted | None) -> None:
        self.state = SessionState.CONSUMING
        self.job: Job | None = None
        self.generation = generation
        self.owned: frozenset[TopicPartition] = frozenset()
        self.revoking: frozenset[TopicPartition] = frozenset()
        self.revoking_since = 0.0
        self.deadline = RevocationDeadline(options.claim_grace)
        self.outcome = SessionOutcome()
        self._options = options
        self._wanted = wanted
        # The newest assignment that is not applied yet, and a rebalance that waits for the member to rejoin.
        self._assignment: NewAssignment | None = None
        self._rebalance: PrepareRebalance | None = None
        # The assignment that is being applied: kept until its revoked partitions are revoked.
        self._applying: NewAssignment | None = None
        # Partitions that have to start, and their committed offsets.
        self._fetched: CommittedOffsets = {}
        # Partitions that have started, or for which StartPartitions was returned.
        self._started: frozenset[TopicPartition] = frozenset()
        # Partitions that `partitions_assigned` was called with.
        self._notified: frozenset[TopicPartition] = frozenset()
        self._needs_cleanup = False
        self._is_abandoned = False
        # The last deadline after which no task was found running.
        self._checked_deadline = math.inf
        self._running_job: Job | None = None
        self._commands: list[Command] = []

    @property
    def is_ending(self) -> bool:
        """True once the session is ending."""
        return self.state in SHUTTING_DOWN

    # -- for the runner -------------------------------------------------------------------------------

    def receive(self, event: Event, now: float) -> list[Command]:
        """Handle an event. Return the commands to execute, in order. `job` may change."""
        if self.state is SessionState.ENDED:
            self.outcome.take(event)
        else:
            self._handle(event, now)
            self._advance(now)
        return self._take_commands()

    def take_job(self) -> Job | None:
        """Return the next job, if there is one. The caller runs it, and reports its end by an event.

        Call this again right after reporting the end of a job: until a job is taken, an event may replace it.
        """
        self._running_job, self.job = self.job, None
        return self._running_job

    def handle_timer(self, now: float) -> list[Command]:
        """Return the commands to execute at `next_deadline()`; none before that time."""
        deadline = self.next_deadline()
        if deadline is not None and now >= deadline:
            self._commands.append(FindStuckTasks())
        return self._take_commands()

    def next_deadline(self) -> float | None:
        """Return the time for `handle_timer`; None if only an event can cause a transition."""
        is_over = self._is_abandoned or self.state is SessionState.ENDED
        return None if is_over or self.deadline.at in (math.inf, self._checked_deadline) else self.deadline.stuck_at

    def _take_commands(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands

    def _move(self, by: SessionInput) -> None:
        self.state = next_state(self.state, by)

    # -- events ---------------------------------------------------------------------------------------

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case NewAssignment():
                self._take_assignment(event)
            case PrepareRebalance():
                self._take_rebalance(event, now)
            case SubscriptionRead(wanted=wanted):
                self._wanted = wanted
                if wanted is None:
                    self._close("the subscription was dropped", now)
            case MembershipLost(reason=reason):
                self._assignment = None
                self._end(reason, now, lost=True)
            case Fail(error=error):
                self.outcome.take(event)
                self._end(str(error), now, lost=True)
            case CloseWanted(reason=reason):
                self.outcome.take(event)
                self._close(reason, now)
            case EndWanted(reason=reason) | ReaderReturned(reason=reason):
                self._end(reason, now)
            case Cancelled():
                self._close("cancelled", now)
            case ReaderFailed():
                self._handler_failed(event.name, event.error, reader_failure(event, self.generation.id), now)
            case CallFailed(name=name, error=error):
                error.add_note(f"in {name} of group {self._options.group!r}, generation {self.generation.id}")
                self._handler_failed(name, error, error, now)
            case TasksStuck(names=names):
                self._abandon(names, now)
            case TasksEnded():
                self._shut_down(now)
            case ShutdownCutOff():
                self._cut_off()
            case OffsetsFetched() | OffsetsFailed() | Drained() | CallEnded() | CommitEnded():
                self._job_ended(event, now)

    def _take_assignment(self, new: NewAssignment) -> None:
        """Keep the newest assignment. It ends the rebalance before it."""
        self._assignment, self._rebalance = new, None
        self._commands.append(UpdateSession(new.generation, self.owned))
        self._break_off_fetch()
        if not self.revoking:
            self._lift()

    def _take_rebalance(self, rebalance: PrepareRebalance, now: float) -> None:
        if self.is_ending or not self._options.is_cooperative:
            self.outcome.rebalanced = self.outcome.rebalanced or not self.is_ending
            self._assignment = None
            self._end(rebalance.reason, now, deadline=rebalance.deadline)
        elif self.revoking or self._assignment is not None or self._unsubscribed():
            self._rebalance = rebalance
            self._hasten(rebalance.deadline, now)
            self._break_off_fetch()
        else:
            self._rejoin(rebalance.reason)

    def _job_ended(self, event: OffsetsFetched | OffsetsFailed | Drained | CallEnded | CommitEnded, now: float) -> None:
        job, self._running_job = self._running_job, None
        match self.state, event:
            case _, CallEnded(cut_off=True) if isinstance(job, CallHandler):
                self._call_cut_off(job.name, now)
            case SessionState.FETCHING, OffsetsFetched(committed=None):
                self._move(SessionInput.DONE)
            case SessionState.FETCHING, OffsetsFetched(committed=committed) if committed is not None:
                self._fetched = committed
                self._set_up()
            case _, OffsetsFailed(error=error):
                self._offsets_failed(error, now)
            case SessionState.SETTING_UP, CallEnded():
                self._notify_assigned()
            case SessionState.ASSIGNING, CallEnded():
                self._start()
            case SessionState.DRAINING, Drained(not_started=not_started):
                self._started -= self.revoking | not_started
                self._notify_revoked(now)
            case SessionState.REVOKING, CallEnded():
                self._move(SessionInput.COMMIT_DUE)
                self.job = Commit(is_last=False)
            case SessionState.COMMITTING, CommitEnded(in_time=in_time):
                if not in_time:
                    self._commit_failed("the commit of revoked partitions got no response by the deadline")
                self._revoked(now)
            case SessionState.RELEASING | SessionState.CLEANING_UP | SessionState.CLOSING, CallEnded() | CommitEnded():
                self._next_of_shutdown()

    # -- assignments and rebalances, one after the other ------------------------------------------------

    def _advance(self, now: float) -> None:
        """Start with a waiting assignment, or answer a waiting rebalance, if there is no job."""
        while self.state is SessionState.CONSUMING:
            if self._assignment is not None:
                new, self._assignment = self._assignment, None
                self._apply(new, now)
            elif self._rebalance is not None and (unsubscribed := self._unsubscribed()):
                self._revoke(unsubscribed, self._rebalance.deadline, now)
            elif self._rebalance is not None:
                self._rejoin(self._rebalance.reason)
            else:
                break

    def _apply(self, new: NewAssignment, now: float) -> None:
        assigned = topic_partitions(new.assignment)
        # Not compared with `owned`: that may have partitions of an earlier assignment for which `partitions_assigned`
        # was not called yet. If they are assigned again, they count as added. If not, the handler needs no call.
        added = tuple(partition for partition in assigned if partition not in self._notified)
        kept = tuple(partition for partition in assigned if partition in self._notified)
        revoked = tuple(sorted(self._notified.difference(assigned)))
        self.generation = new.generation
        self._set_owned(frozenset(assigned) | frozenset(revoked))
        self._commands.append(Observe(PartitionsAssigned(self._options.group, new.generation, added, kept)))
        if revoked:
            self._applying = new
            seconds = self._options.rebalance_timeout - self._options.rebalance_margin
            self._revoke(revoked, now + seconds, now)
        else:
            self._finish_assignment(new, has_revoked=False)

    def _finish_assignment(self, new: NewAssignment, *, has_revoked: bool) -> None:
        """Rejoin if partitions were revoked, and start the new partitions."""
        assigned = topic_partitions(new.assignment)
        if has_revoked or not set(assigned).issuperset(topic_partitions(new.owned_in_join)):
            self._rejoin("partitions were revoked")
        elif self._rebalance is not None:
            self._rejoin(self._rebalance.reason)
        if self._assignment is None and self._rebalance is None:
            # Even without new partitions: the first assignment calls `setup`, and starts the handler's streams.
            self._move(SessionInput.ADDED)
            self.job = FetchOffsets(tuple(partition for partition in assigned if partition not in self._started))

    def _unsubscribed(self) -> list[TopicPartition]:
        """Return the owned partitions whose topics are not subscribed to any more."""
        # By name, not by metadata: a topic that is missing in the metadata may be back soon.
        wanted = self._wanted
        return [partition for partition in self.owned if wanted is None or not wants(wanted, partition.topic)]

    def _set_owned(self, partitions: frozenset[TopicPartition]) -> None:
        self.owned = partitions
        self._commands.append(UpdateSession(self.generation, partitions))

    def _rejoin(self, reason: str) -> None:
        self._rebalance = None
        self._lift()
        owned = by_topic(sorted(self.owned))
        self._commands.append(Post(JoinWanted(reason, owned, self.generation.id)))

    # -- revoking ---------------------------------------------------------------------------------------

    def _revoke(self, partitions: Iterable[TopicPartition], deadline: float, now: float) -> None:
        """Start to revoke these partitions. Readers of other partitions continue."""
        self.revoking, self.revoking_since = frozenset(partitions), now
        revoked = PartitionsRevoked(self._options.group, self.generation, tuple(sorted(self.revoking)))
        self._commands.append(Observe(revoked))
        self._hasten(deadline, now)
        self._move(SessionInput.REVOKED)
        self.job = Drain(self.revoking)

    def _notify_revoked(self, now: float) -> None:
        if known := self.revoking & self._notified:
            self._notified -= known
            self._move(SessionInput.CALL_DUE)
            self.job = CallHandler("partitions_revoked", tuple(sorted(known)), shielded=True)
        else:
            self._revoked(now)

    def _revoked(self, now: float) -> None:
        revoked, self.revoking = self.revoking, frozenset()
        self._commands.append(DropOffsets(revoked))
        self._set_owned(self.owned - revoked)
        self._lift()
        self._move(SessionInput.DONE)
        if self._applying is not None:
            applied, self._applying = self._applying, None
            self._finish_assignment(applied, has_revoked=True)
        elif self._rebalance is not None:  # a new assignment may have ended the rebalance meanwhile
            self._rejoin(self._rebalance.reason)

    def _hasten(self, deadline: float, now: float) -> None:
        grace_ends = self.deadline.hasten(deadline, now)
        self._commands.append(StopReaders(self.revoking, grace_ends))

    def _lift(self) -> None:
        """Remove the time limits: no partition is being revoked, and the group does not wait for this member."""
        if not self.is_ending:
            self.deadline.lift()

    # -- starting ---------------------------------------------------------------------------------------

    def _break_off_fetch(self) -> None:
        if self.state is SessionState.FETCHING and self.job is not None:  # the job has not started
            self.job = None
            self._move(SessionInput.DONE)
        elif self.state is SessionState.FETCHING:
            self._commands.append(BreakOffFetch())

    def _set_up(self) -> None:
        if self._needs_cleanup:
            self._notify_assigned()
            return
        self._needs_cleanup = True
        claims = by_topic(sorted(self.owned))
        self._commands.append(Observe(SessionStarted(self._options.group, self.generation, claims)))
        self._move(SessionInput.SETUP_DUE)
        self.job = CallHandler("setup")

    def _notify_assigned(self) -> None:
        if new := tuple(partition for partition in self._fetched if partition not in self._notified):
            self._notified |= frozenset(new)
            self._move(SessionInput.ASSIGNED_DUE)
            self.job = CallHandler("partitions_assigned", new)
        else:
            self._start()

    def _start(self) -> None:
        self._started |= frozenset(self._fetched)
        self._commands.append(StartPartitions(self._fetched))
        self._move(SessionInput.DONE)

    # -- failures ---------------------------------------------------------------------------------------

    def _handler_failed(self, name: str, error: Exception, failure: Exception, now: float) -> None:
        if is_late_commit(error):
            self._end(f"{name}: {error}", now, lost=True)
        else:
            self._fail(f"{name} failed", failure, now)

    def _offsets_failed(self, error: SarameyaError, now: float) -> None:
        if isinstance(error, CommitError):  # the membership reports the reason itself
            self._end("the membership is over", now, lost=True)
        else:
            self._fail("the group's committed offsets could not be fetched", error, now)

    def _fail(self, reason: str, error: Exception, now: float) -> None:
        self.outcome.failures.append(error)
        self._end(reason, now)

    def _call_cut_off(self, name: str, now: float) -> None:
        if name in ("setup", "partitions_assigned"):
            # The call is incomplete, so the handler must not get messages.
            self._commands.append(Observe(CallCancelled(self._options.group, self.generation, name)))
            self._end(f"{name} was cancelled, since it did not return in time", now)
            return
        self._missed_deadline(name)
        if self.state is SessionState.RELEASING:
            self._next_of_shutdown()
        elif not self.is_ending:
            self._end(f"{name} did not return in time", now)

    def _missed_deadline(self, name: str) -> None:
        text = f"{name} of group {self._options.group!r} did not return by the deadline"
        self.outcome.failures.append(RebalanceDeadlineError(text))

    def _commit_failed(self, cause: str) -> None:
        self._commands.append(Observe(CommitFailed(self._options.group, cause)))

    def _abandon(self, names: Sequence[str], now: float) -> None:
        """End the session and leave the group, although these tasks still run."""
        if not names:
            self._checked_deadline = self.deadline.at
            return
        text = f"{', '.join(names)} did not end by the rebalance deadline"
        self._is_abandoned = True
        self._end(text, now, lost=True)
        self.outcome.failures.append(RebalanceDeadlineError(text))
        self._commands.append(Post(LeaveWanted(f"{', '.join(names)} is stuck")))

    # -- ending -----------------------------------------------------------------------------------------

    def _close(self, reason: str, now: float) -> None:
        self._end(reason, now, deadline=now + self._options.close_timeout)

    def _end(self, reason: str, now: float, *, lost: bool = False, deadline: float | None = None) -> None:
        """Stop all readers. A second call can only move the deadline to an earlier time, or lose the membership."""
        wanted = now + self._options.rebalance_timeout if deadline is None else deadline
        is_first = not self.is_ending
        grace_ends = self.deadline.end_session(wanted, now, is_first=is_first)
        self.outcome.lost = self.outcome.lost or lost
        if is_first:
            self._move(SessionInput.END)
            self.job = None
            self.outcome.reason, self.revoking_since = reason, now
            self._commands.append(Observe(SessionEnding(self._options.group, self.generation, reason, lost)))
            self._commands.append(StopStarting())
        self._commands.append(StopReaders(None, grace_ends))

    def _shut_down(self, now: float) -> None:
        """Start the last calls and the last commit: all tasks of the handler have ended."""
        if not self.is_ending:
            self._close("cancelled", now)
        self.deadline.shut_down(now)
        if known := tuple(sorted(self._notified)):
            self._move(SessionInput.CALL_DUE)
            self.job = CallHandler("partitions_lost" if self.outcome.lost else "partitions_revoked", known)
        else:
            self._next_of_shutdown()

    def _next_of_shutdown(self) -> None:
        if self.state is SessionState.CLEANING_UP:
            self._needs_cleanup = False
        if self.state is not SessionState.CLOSING and self._needs_cleanup:
            self._move(SessionInput.CLEANUP_DUE)
            self.job = CallHandler("cleanup")
        elif self.state is not SessionState.CLOSING and not self.outcome.lost:
            self._move(SessionInput.COMMIT_DUE)
            self.job = Commit(is_last=True)
        else:
            self._ended()

    def _cut_off(self) -> None:
        """End the session: the deadline has cancelled one of the last calls, or the last commit."""
        if isinstance(self._running_job, CallHandler):
            self._missed_deadline(self._running_job.name)
        else:
            self._commit_failed("the last commit got no response by the deadline")
        self._ended()

    def _ended(self) -> None:
        self._move(SessionInput.DONE)
        self.outcome.deadline = self.deadline.session_ends
        self.outcome.next = self._assignment if self._rebalance is None else None
        self._commands.append(Observe(SessionEnded(self._options.group, self.generation, self.outcome.reason)))
