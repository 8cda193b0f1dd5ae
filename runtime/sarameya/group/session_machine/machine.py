"""The state machine of a session. Events in, commands and jobs out, `next_deadline()`. Pure.

`transitions.py` says which state follows which input. The machine does no I/O and knows no clock: `runner.py` carries
its commands out, does its `job`, and reports what came of it as an event. There is one path for all assignors:

    assignment   revoked partitions are DRAINING, then REVOKING (the handler is called), then COMMITTING; the member
                 joins again. New partitions are FETCHING (their committed offsets), SETTING_UP once, and ASSIGNING;
                 then they start, beside whatever comes next.
    rebalance    Eager assignors: the session ends. Cooperative ones: the member joins again at once, with all that it
                 owns; or, where topics are no longer subscribed to, after they are revoked.
    end          All readers stop (ENDING). Then come the handler's last calls (RELEASING, CLEANING_UP) and the last
                 commit (CLOSING).

Rules that are easily broken, kept by `tests/model/test_session_model.py` and `tests/group`:

- What is revoked has been committed, or is lost, before the join that leaves it out.
- A newer assignment replaces one that waits. A rebalance that cannot be answered at once waits with its deadline.
- The first reason to end stands. A later one can only bring the deadline nearer, or lose the membership.
- `setup` and `cleanup` come in pairs, whatever fails between them. Nothing starts once the session ends.
- A lost session commits nothing.
- A JoinWanted answers one rebalance: the machine posts it in one place (`_rejoin`), names the generation that it
  answers, and drops a pending rebalance when it posts. A second one in the next generation would cost the group another
  round.
- A member joins again after partitions were revoked, also after those that its last join claimed and the assignment
  leaves out: until then the leader withholds them from all others (KIP-429).
- A rebalance that cannot be answered at once hastens the work in progress. If the session ends first, the next join
  answers it (`tests/group/test_waiting_rebalances.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs

from sarameya.errors import CommitError, RebalanceDeadlineError, SarameyaError
from sarameya.group.session_machine.deadline import RevocationDeadline
from sarameya.group.session_machine.failures import is_of_commits, reader_failure
from sarameya.group.session_machine.messages import (
    BreakOffFetch,
    CallEnded,
    CallFailed,
    CallHandler,
    Cancelled,
    CloseWanted,
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
    LimitTime,
    NewAssignment,
    Observe,
    OffsetsFailed,
    OffsetsFetched,
    Post,
    ReaderFailed,
    ReaderReturned,
    SessionOutcome,
    ShutdownCutOff,
    StartPartitions,
    StopReaders,
    StopStarting,
    SubscriptionRead,
    TasksEnded,
    TasksStuck,
    UpdateSession,
)
from sarameya.group.session_machine.transitions import SHUTTING_DOWN, TRANSITIONS, Input, State
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
from sarameya.protocol.rebalance import diff
from sarameya.protocol.subscription import Wanted, wants


@attrs.frozen(slots=True, kw_only=True)
class SessionOptions:
    """The options of `Config`, and of the member, that the machine needs; seconds throughout."""

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
        job: The job that the runner has to begin; None where it has to wait for events.
        generation: The generation whose assignment was applied last.
        owned: The partitions that are assigned to this member and not revoked yet.
        revoking: The owned partitions that are being revoked.
        revoking_since: When that began, or when the session began to end.
        deadline: The deadline of all that; moved by the machine alone.
        outcome: How the session ends, as far as that is known.
    """

    def __init__(self, options: SessionOptions, generation: Generation, wanted: Wanted | None) -> None:
        self.state = State.CONSUMING
        self.job: Job | None = None
        self.generation = generation
        self.owned: frozenset[TopicPartition] = frozenset()
        self.revoking: frozenset[TopicPartition] = frozenset()
        self.revoking_since = 0.0
        self.deadline = RevocationDeadline(options.claim_grace)
        self.outcome = SessionOutcome()
        self._options = options
        self._wanted = wanted
        # What the group wants and has not got yet: the newest assignment, and a rebalance that waits for its answer.
        self._assignment: NewAssignment | None = None
        self._rebalance: PrepareRebalance | None = None
        # The assignment that is being applied, its partitions that have to start, and their committed offsets.
        self._applying: NewAssignment | None = None
        self._added: Sequence[TopicPartition] = ()
        self._fetched: CommittedOffsets = {}
        # Partitions that are read, or about to be; and those that `partitions_assigned` was called with.
        self._started: frozenset[TopicPartition] = frozenset()
        self._notified: frozenset[TopicPartition] = frozenset()
        self._needs_cleanup = False
        self._is_abandoned = False
        # A deadline that is over and that no task has outlived.
        self._checked = math.inf
        self._under_way: Job | None = None
        self._commands: list[Command] = []

    @property
    def is_ending(self) -> bool:
        """True once the session ends."""
        return self.state in SHUTTING_DOWN

    @property
    def _commit_generation(self) -> Generation:
        """The group's generation, under which commits go out, also while its assignment waits for a slow call."""
        return self.generation if self._assignment is None else self._assignment.generation

    # -- what the runner calls ------------------------------------------------------------------------

    def receive(self, event: Event, now: float) -> list[Command]:
        """Take in an event. Return the commands that follow from it, in order; `job` may be another one."""
        if self.state is not State.ENDED:
            self._handle(event, now)
            self._advance(now)
        return self._take()

    def take_job(self) -> Job | None:
        """Begin the next job, if there is one; its end is to be reported by an event.

        Whoever has reported the end of a job takes the next one at once. Otherwise a job may be withdrawn before it has
        begun.
        """
        self._under_way, self.job = self.job, None
        return self._under_way

    def handle_timer(self, now: float) -> list[Command]:
        """Call when `next_deadline()` has come. Calling it early does no harm."""
        deadline = self.next_deadline()
        if deadline is not None and now >= deadline:
            self._commands.append(FindStuckTasks())
        return self._take()

    def next_deadline(self) -> float | None:
        """Return when to call `handle_timer`; None if only an event can cause a transition."""
        is_over = self._is_abandoned or self.state is State.ENDED
        return None if is_over or self.deadline.at in (math.inf, self._checked) else self.deadline.stuck_at

    def _take(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands

    def _move(self, by: Input) -> None:
        self.state = TRANSITIONS[self.state][by]

    # -- taking events in -----------------------------------------------------------------------------

    def _handle(self, event: Event, now: float) -> None:
        options = self._options
        match event:
            case NewAssignment():
                self._take_assignment(event)
            case PrepareRebalance():
                self._take_rebalance(event, now)
            case SubscriptionRead(wanted=wanted):
                self._wanted = wanted
                if wanted is None:
                    self._end("the subscription was dropped", now, deadline=now + options.close_timeout)
            case MembershipLost(reason=reason):
                self._assignment = None
                self._end(reason, now, lost=True)
            case Fail(error=error):
                self.outcome.fatal = error
                self._end(str(error), now, lost=True)
            case CloseWanted(reason=reason):
                self.outcome.closing = True
                self._end(reason, now, deadline=now + options.close_timeout)
            case EndWanted(reason=reason) | ReaderReturned(reason=reason):
                self._end(reason, now)
            case Cancelled():
                self._end_cancelled(now)
            case ReaderFailed():
                self._failed(event.name, event.error, reader_failure(event, self.generation.id), now)
            case CallFailed(name=name, error=error):
                error.add_note(f"in {name} of group {options.group!r}, generation {self.generation.id}")
                self._failed(name, error, error, now)
            case TasksStuck(names=names):
                self._abandon(names, now)
            case TasksEnded():
                self._shut_down(now)
            case ShutdownCutOff():
                self._cut_off()
            case OffsetsFetched() | OffsetsFailed() | Drained() | CallEnded() | CommitEnded():
                self._job_ended(event, now)

    def _take_assignment(self, new: NewAssignment) -> None:
        """Keep the newest assignment. The rebalance before it is over."""
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
        job, self._under_way = self._under_way, None
        match self.state, event:
            case _, CallEnded(cut_off=True) if isinstance(job, CallHandler):
                self._call_cut_off(job.name, now)
            case State.FETCHING, OffsetsFetched(committed=None):
                self._move(Input.DONE)
            case State.FETCHING, OffsetsFetched(committed=committed) if committed is not None:
                self._fetched = committed
                self._set_up()
            case _, OffsetsFailed(error=error):
                self._offsets_failed(error, now)
            case State.SETTING_UP, CallEnded():
                self._notify_assigned()
            case State.ASSIGNING, CallEnded():
                self._start()
            case State.DRAINING, Drained(not_started=not_started):
                self._started -= self.revoking | not_started
                self._notify_revoked(now)
            case State.REVOKING, CallEnded():
                self._move(Input.COMMIT_DUE)
                self.job = Commit(is_last=False)
            case State.COMMITTING, CommitEnded(in_time=in_time):
                if not in_time:
                    self._commit_failed("the commit of revoked partitions had no response by the deadline")
                self._revoked(now)
            case State.RELEASING | State.CLEANING_UP | State.CLOSING, CallEnded() | CommitEnded():
                self._next_of_shutdown()

    # -- assignments and rebalances, one after the other ------------------------------------------------

    def _advance(self, now: float) -> None:
        """Take up what waits, once nothing else is under way."""
        while self.state is State.CONSUMING:
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
        # Not with `owned`: that may have partitions of an earlier assignment for which `partitions_assigned` was not
        # called yet. If they are assigned again, they are added. If not, there is nothing that the handler must revoke.
        change = diff(self._notified, assigned)
        self.generation = new.generation
        self._set_owned(frozenset(assigned) | frozenset(change.revoked))
        self._commands.append(
            Observe(PartitionsAssigned(self._options.group, new.generation, change.added, change.kept))
        )
        if change.revoked:
            self._applying = new
            within = self._options.rebalance_timeout - self._options.rebalance_margin
            self._revoke(change.revoked, now + within, now)
        else:
            self._applied(new, has_revoked=False)

    def _applied(self, new: NewAssignment, *, has_revoked: bool) -> None:
        """Join again if something was revoked, and start the new partitions."""
        assigned = topic_partitions(new.assignment)
        if has_revoked or diff(topic_partitions(new.claimed), assigned).revoked:
            self._rejoin("partitions were revoked")
        elif self._rebalance is not None:
            self._rejoin(self._rebalance.reason)
        if self._assignment is None and self._rebalance is None:
            # Also where nothing is new: the first assignment sets the handler up, and starts its streams.
            self._added = [partition for partition in assigned if partition not in self._started]
            self._move(Input.ADDED)
            self.job = FetchOffsets(tuple(self._added))

    def _unsubscribed(self) -> list[TopicPartition]:
        """Return the owned partitions whose topics are not subscribed to any more."""
        # By name, not by metadata: a topic that the metadata lacks may be back at once.
        wanted = self._wanted
        return [partition for partition in self.owned if wanted is None or not wants(wanted, partition.topic)]

    def _set_owned(self, partitions: frozenset[TopicPartition]) -> None:
        self.owned = partitions
        self._commands.append(UpdateSession(self._commit_generation, partitions))

    def _rejoin(self, reason: str) -> None:
        self._rebalance = None
        self._lift()
        owned = by_topic(sorted(self.owned))
        self._commands.append(Post(JoinWanted(reason, owned, self.generation.id)))

    # -- revoking ---------------------------------------------------------------------------------------

    def _revoke(self, partitions: Iterable[TopicPartition], deadline: float, now: float) -> None:
        """Stop the readers of these partitions, and of no others."""
        self.revoking, self.revoking_since = frozenset(partitions), now
        revoked = PartitionsRevoked(self._options.group, self.generation, tuple(sorted(self.revoking)))
        self._commands.append(Observe(revoked))
        self._hasten(deadline, now)
        self._move(Input.REVOKED)
        self.job = Drain(self.revoking)

    def _notify_revoked(self, now: float) -> None:
        if known := self.revoking & self._notified:
            self._notified -= known
            self._move(Input.CALL_DUE)
            self.job = CallHandler("partitions_revoked", tuple(sorted(known)))
        else:
            self._revoked(now)

    def _revoked(self, now: float) -> None:
        revoked, self.revoking = self.revoking, frozenset()
        self._commands.append(DropOffsets(revoked))
        self._set_owned(self.owned - revoked)
        self._lift()
        self._move(Input.DONE)
        if self._applying is not None:
            applied, self._applying = self._applying, None
            self._applied(applied, has_revoked=True)
        elif self._rebalance is not None:  # else it has been answered, and an assignment has come
            self._rejoin(self._rebalance.reason)

    def _hasten(self, deadline: float, now: float) -> None:
        grace_ends = self.deadline.hasten(deadline, now)
        self._commands += [LimitTime(), StopReaders(self.revoking, grace_ends)]

    def _lift(self) -> None:
        """Remove the limits: nothing is being revoked, and the group does not wait for this member."""
        if not self.is_ending:
            self.deadline.lift()

    # -- starting ---------------------------------------------------------------------------------------

    def _break_off_fetch(self) -> None:
        if self.state is State.FETCHING and self.job is not None:  # not begun
            self.job = None
            self._move(Input.DONE)
        elif self.state is State.FETCHING:
            self._commands.append(BreakOffFetch())

    def _set_up(self) -> None:
        if self._needs_cleanup:
            self._notify_assigned()
            return
        self._needs_cleanup = True
        claims = by_topic(sorted(self.owned))
        self._commands.append(Observe(SessionStarted(self._options.group, self.generation, claims)))
        self._move(Input.SETUP_DUE)
        self.job = CallHandler("setup")

    def _notify_assigned(self) -> None:
        if new := tuple(partition for partition in self._added if partition not in self._notified):
            self._notified |= frozenset(new)
            self._move(Input.ASSIGNED_DUE)
            self.job = CallHandler("partitions_assigned", new)
        else:
            self._start()

    def _start(self) -> None:
        self._started |= frozenset(self._fetched)
        self._commands.append(StartPartitions(self._fetched))
        self._move(Input.DONE)

    # -- failures ---------------------------------------------------------------------------------------

    def _failed(self, name: str, error: Exception, failure: Exception, now: float) -> None:
        if is_of_commits(error):
            self._end(f"{name}: {error}", now, lost=True)
        else:
            self._fail(f"{name} failed", failure, now)

    def _offsets_failed(self, error: SarameyaError, now: float) -> None:
        if isinstance(error, CommitError):  # the membership reports what has ended it
            self._end("the membership is over", now, lost=True)
        else:
            self._fail("the group's offsets cannot be had", error, now)

    def _fail(self, reason: str, error: Exception, now: float) -> None:
        self.outcome.failures.append(error)
        self._end(reason, now)

    def _call_cut_off(self, name: str, now: float) -> None:
        if name in ("setup", "partitions_assigned"):
            # The handler may be half set up, so nothing may be read.
            self._commands.append(Observe(CallCancelled(self._options.group, self.generation, name)))
            self._end(f"{name} was cut off", now)
            return
        self._too_late(name)
        if self.state is State.RELEASING:
            self._next_of_shutdown()
        elif not self.is_ending:
            self._end(f"{name} is too slow", now)

    def _too_late(self, name: str) -> None:
        error = RebalanceDeadlineError(f"{name} of group {self._options.group!r} outlived the deadline")
        self.outcome.failures.append(error)

    def _commit_failed(self, cause: str) -> None:
        self._commands.append(Observe(CommitFailed(self._options.group, cause)))

    def _abandon(self, names: Sequence[str], now: float) -> None:
        """Leave the group without the tasks that outlive the deadline."""
        if not names:
            self._checked = self.deadline.at
            return
        text = f"{', '.join(names)} did not end by the rebalance deadline"
        self._is_abandoned = True
        self._end(text, now, lost=True)
        self.outcome.failures.append(RebalanceDeadlineError(text))
        self._commands.append(Post(LeaveWanted(f"{', '.join(names)} is stuck")))

    # -- ending -----------------------------------------------------------------------------------------

    def _end_cancelled(self, now: float) -> None:
        self._end("cancelled", now, deadline=now + self._options.close_timeout)

    def _end(self, reason: str, now: float, *, lost: bool = False, deadline: float | None = None) -> None:
        """Stop all readers. The first reason stands; a later one can only hasten, or lose the membership."""
        wanted = now + self._options.rebalance_timeout if deadline is None else deadline
        is_first = not self.is_ending
        grace_ends = self.deadline.end_session(wanted, now, is_first=is_first)
        self.outcome.deadline = self.deadline.session_ends
        self.outcome.lost = self.outcome.lost or lost
        if is_first:
            self._move(Input.END)
            self.job = None
            self.outcome.reason, self.revoking_since = reason, now
            self._commands.append(Observe(SessionEnding(self._options.group, self.generation, reason, lost)))
            self._commands.append(StopStarting())
        self._commands += [LimitTime(), StopReaders(None, grace_ends)]

    def _shut_down(self, now: float) -> None:
        """Begin the last calls and the last commit: all tasks have ended."""
        if not self.is_ending:
            self._end_cancelled(now)
        self.deadline.shut_down(now)
        self.outcome.deadline = self.deadline.session_ends
        self._commands.append(LimitTime())
        if known := tuple(sorted(self._notified)):
            self._move(Input.CALL_DUE)
            self.job = CallHandler("partitions_lost" if self.outcome.lost else "partitions_revoked", known)
        else:
            self._next_of_shutdown()

    def _next_of_shutdown(self) -> None:
        if self.state is State.CLEANING_UP:
            self._needs_cleanup = False
        if self.state is not State.CLOSING and self._needs_cleanup:
            self._move(Input.CLEANUP_DUE)
            self.job = CallHandler("cleanup")
        elif self.state is not State.CLOSING and not self.outcome.lost:
            self._move(Input.COMMIT_DUE)
            self.job = Commit(is_last=True)
        else:
            self._ended()

    def _cut_off(self) -> None:
        """End the session: the deadline has cut off one of the last calls, or the last commit."""
        if self._needs_cleanup:
            self._too_late("cleanup")
        else:
            self._commit_failed("the last commit was not answered by the deadline")
        self._ended()

    def _ended(self) -> None:
        self._move(Input.DONE)
        self.outcome.next = self._assignment if self._rebalance is None else None
        self._commands.append(Observe(SessionEnded(self._options.group, self.generation, self.outcome.reason)))
