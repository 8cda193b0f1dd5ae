"""A random walk of a session's state machine, with a pure stand-in for the shell around it.

The stand-in runs jobs, reads, marks, stops and fails. `SessionWalk.step` makes one event happen; its invariants are
checked after each. See `test_session_model.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from sarameya.error_codes import ErrorCode
from sarameya.errors import CommitError, ConnectError
from sarameya.group.membership.notices import CloseWanted, NewAssignment
from sarameya.group.session_machine.deadline import LEAST_SECONDS
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
from sarameya.group.session_machine.transitions import SessionState
from sarameya.model import Generation, TopicPartition, by_topic, topic_partitions
from sarameya.observe import CommitFailed, SessionEnded, SessionEnding
from sarameya.protocol.membership.messages import Fail, JoinWanted, LeaveWanted, MembershipLost, PrepareRebalance

PARTITIONS = [TopicPartition(topic, number) for topic in ("t", "u") for number in range(3)]
SUBSCRIPTIONS = (("t", "u"), ("t", "u"), ("t",), ("u",), ("t",), ("u",), None)
CUT_OFF = frozenset({SessionState.RELEASING, SessionState.CLEANING_UP, SessionState.CLOSING})
GRACE, REBALANCE_TIMEOUT, MARGIN, CLOSE_TIMEOUT = 2.0, 10.0, 0.5, 4.0


class SessionWalk:
    """A session, and its state as the shell around it knows it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 100.0
        self.past: list[str] = []
        options = SessionOptions(
            group="g",
            is_cooperative=rng.random() < 0.7,
            rebalance_timeout=REBALANCE_TIMEOUT,
            rebalance_margin=MARGIN,
            claim_grace=GRACE,
            close_timeout=CLOSE_TIMEOUT,
        )
        self.is_cooperative = options.is_cooperative
        self.number = 1
        self.machine = SessionMachine(options, self._generation(), ("t", "u"))
        self.job: Job | None = None
        self.reading: dict[TopicPartition, float] = {}
        """Partition with a running reader -> the time when the reader is cancelled."""
        self.starting: set[TopicPartition] = set()
        self.dirty: set[TopicPartition] = set()
        """Partitions with marks that are not committed."""
        self.has_failed_commits = False
        """True after a failed commit that was reported, until the next mark."""
        self.notified: set[TopicPartition] = set()
        """Partitions whose assignment was reported to the handler, and whose end was not."""
        self.calls: list[str] = []
        self.posts: list[JoinWanted | LeaveWanted] = []
        self.joined_since_assignment = False
        self.is_stuck = self.tasks_ended = self.is_cut_off = self.is_awake = self.starts_cancelled = False
        self.observed_end = 0
        self.revocation: tuple[frozenset[TopicPartition], float] | None = None
        self.session_ends = math.inf
        self.was_lost = False
        self.broken_off = False
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.shown: frozenset[TopicPartition] = frozenset()
        self._receive(self._assignment())

    # -- events ---------------------------------------------------------------------------------------

    def step(self) -> None:
        """Make one random event happen: progress of the shell, time or a mark, a rebalance, or an end."""
        progress: list[Callable[[], None]] = []
        if self.job is not None:
            progress.append(self._job_ends)
        elif self.machine.job is not None:
            progress.append(self._begin_job)
        if self.starting and not self.starts_cancelled:
            progress.append(self._start_one)
        if any(by < math.inf for by in self.reading.values()):
            progress.append(self._reader_stops)
        if self.machine.is_ending and not (self.job or self.reading or self.starting or self.tasks_ended):
            progress.append(self._tasks_end)
        draw = self.rng.random()
        if progress and draw < 0.65:
            self.rng.choice(progress)()
        elif draw < 0.8:
            self.rng.choice((self._time_passes, self._mark))()
        elif draw < 0.97:
            group_events: list[Callable[[], None]] = [self._rebalance, self._subscribe]
            if self.is_cooperative or self.machine.is_ending:  # an eager session ends before the next assignment
                group_events += [self._assign, self._assign]
            self.rng.choice(group_events)()
        else:
            ends = (self._lose, self._close, self._fail, self._end, self._cancel, self._reader_fails)
            self.rng.choice(ends)()

    def finish(self) -> None:
        """End the session, complete everything under way, and check the end."""
        self._cancel()
        for _ in range(200):
            if self.machine.state is SessionState.ENDED:
                break
            if self.reading:
                self._reader_stops()
            elif self.job is not None:
                self._job_ends()
            elif self.machine.job is not None and (self.tasks_ended or not self.machine.is_ending):
                self._begin_job()
            elif self.starting:
                self._time_passes()
            elif not self.tasks_ended:
                self._tasks_end()
        assert self.machine.state is SessionState.ENDED, f"the session does not end: {self.machine.state}"
        assert self.calls.count("setup") <= 1
        if not self.is_cut_off:
            assert self.calls.count("cleanup") == self.calls.count("setup"), self.calls
        assert not self.notified, f"their end was not reported to the handler: {self.notified}"
        assert self.observed_end == 1
        assert self.machine.outcome.deadline == self.machine.deadline.session_ends
        assert self.machine.next_deadline() is None
        if not (self.machine.outcome.lost or self.has_failed_commits):
            assert not self.dirty, "marks are not committed at the end"

    def _time_passes(self) -> None:
        self.now += self.rng.choice((0.01, 0.3, 1.0, 2.5, 6.0))
        for partition, by in list(self.reading.items()):
            if by <= self.now and self.rng.random() < 0.95:  # otherwise the reader swallows its cancellation
                del self.reading[partition]
        if self.machine.is_ending:
            self.starting.clear()
        if (deadline := self.machine.next_deadline()) is None or deadline > self.now:
            return
        if isinstance(self.job, CallHandler) and self.job.name != "cleanup" and self.rng.random() < 0.9:
            self.job, self.is_awake = None, True
            self._receive(CallEnded(cut_off=True))
            self.is_awake = False
        self._note("timer")
        self._carry_out(self.machine.handle_timer(self.now))

    def _mark(self) -> None:
        if self.reading:
            self.dirty.add(self.rng.choice(sorted(self.reading)))
            self.has_failed_commits = False

    def _assign(self) -> None:
        self._receive(self._assignment())

    def _assignment(self) -> NewAssignment:
        self.number += 1
        wanted = set(self.rng.sample(PARTITIONS, self.rng.randrange(len(PARTITIONS))))
        if self.rng.random() < 0.4:
            wanted |= self.machine.owned
        claimed = by_topic(sorted(self.machine.owned)) if self.is_cooperative else {}
        self.joined_since_assignment = False
        self.assigned = frozenset(wanted)
        return NewAssignment(self._generation(), by_topic(sorted(wanted)), claimed)

    def _generation(self) -> Generation:
        return Generation(self.number, "m", "range")

    def _rebalance(self) -> None:
        deadline = self.now + self.rng.choice((-3.0, 0.2, 5.0, 9.5))
        self._receive(PrepareRebalance("rebalance", deadline))

    def _subscribe(self) -> None:
        self._receive(SubscriptionRead(self.rng.choice(SUBSCRIPTIONS)))

    def _lose(self) -> None:
        self._receive(MembershipLost("expired"))

    def _close(self) -> None:
        self._receive(CloseWanted("closed"))

    def _fail(self) -> None:
        self._receive(Fail(RuntimeError("refused")))

    def _end(self) -> None:
        self._receive(EndWanted("enough"))

    def _cancel(self) -> None:
        self._receive(Cancelled())

    def _reader_fails(self) -> None:
        if not self.reading:
            return
        partition = self.rng.choice(sorted(self.reading))
        error: Exception = self.rng.choice((OSError("disk"), CommitError(ErrorCode.ILLEGAL_GENERATION, "commit", "")))
        event = ReaderFailed("claim", partition, 7, error) if self.rng.random() < 0.7 else ReaderReturned("returned")
        self._receive(event)
        self.reading.pop(partition, None)

    def _reader_stops(self) -> None:
        stopping = sorted(partition for partition, by in self.reading.items() if by < math.inf)
        if stopping:
            del self.reading[self.rng.choice(stopping)]

    def _start_one(self) -> None:
        partition = self.rng.choice(sorted(self.starting))
        self.starting.discard(partition)
        if not self.machine.is_ending:
            self.reading[partition] = math.inf

    def _tasks_end(self) -> None:
        self.tasks_ended = self.is_awake = True
        self._receive(TasksEnded())
        self.is_awake = False

    # -- jobs -------------------------------------------------------------------------------------------

    def _job_ends(self) -> None:
        job, rng = self.job, self.rng
        assert job is not None
        event: Event
        match job:
            case FetchOffsets(partitions=partitions):
                if self.broken_off or self.machine.is_ending:
                    event = OffsetsFetched(None)
                elif rng.random() < 0.03:
                    event = OffsetsFailed(ConnectError("no broker"))
                else:
                    event = OffsetsFetched(dict.fromkeys(partitions))
            case Drain(partitions=partitions):
                if any(partition in self.reading for partition in partitions):
                    return
                not_started = frozenset(self.starting) if self.starting & partitions else frozenset()
                self.starting -= not_started
                self.starts_cancelled = False
                event = Drained(not_started)
            case CallHandler(name=name):
                draw = rng.random()
                if draw < 0.05:
                    self._receive(CallFailed(name, OSError("disk")))
                may_be_cut_off = name != "cleanup" and self.machine.deadline.at < math.inf
                event = CallEnded(cut_off=may_be_cut_off and draw > 0.85)
            case Commit(is_last=is_last):
                in_time = is_last or rng.random() < 0.8 or self.machine.deadline.at == math.inf
                if in_time and not self.machine.outcome.lost:
                    self.dirty.clear()
                event = CommitEnded(in_time)
        self.job, self.is_awake = None, True
        if self.machine.state in CUT_OFF and rng.random() < 0.1:
            self.has_failed_commits = self.is_cut_off = True
            event = ShutdownCutOff()
        self._receive(event)
        self.is_awake = False

    def _begin_job(self) -> None:
        """Begin the next job as the runner does: one at a time, and none between the end and `TasksEnded`."""
        machine = self.machine
        if self.job is not None or (machine.is_ending and not self.tasks_ended):
            return
        self.job = job = machine.take_job()
        match job:
            case FetchOffsets():
                self.broken_off = False
                assert not machine.is_ending, "an ending session fetches offsets"
            case Drain(partitions=partitions):
                assert partitions == machine.revoking
                assert all(self.reading.get(p, self.now) < math.inf for p in partitions), (
                    "their readers were not stopped"
                )
            case CallHandler(name="setup"):
                assert not machine.is_ending, "set up too late"
                assert not self.calls, "set up twice"
            case CallHandler(name="partitions_assigned", partitions=partitions):
                assert not machine.is_ending
                assert not self.notified & set(partitions), "assigned twice"
                self.notified |= set(partitions)
            case CallHandler(name="partitions_revoked" | "partitions_lost" as name, partitions=partitions):
                assert partitions, "called without partitions"
                assert self.notified >= set(partitions), "their assignment was never reported"
                assert not set(partitions) & (self.reading.keys() | self.starting), "still read"
                assert (name == "partitions_lost") == (machine.outcome.lost and machine.is_ending)
                assert job.shielded != machine.is_ending, "the runner shields all calls once the session is ending"
                self.notified -= set(partitions)
            case CallHandler(name="cleanup"):
                assert "setup" in self.calls
                assert not self.notified | self.reading.keys(), "cleanup comes before the end of the partitions"
            case Commit(is_last=is_last):
                assert not machine.outcome.lost, "a lost session commits"
                assert is_last == machine.is_ending
        if isinstance(job, CallHandler):
            self.calls.append(job.name)

    # -- commands and invariants --------------------------------------------------------------------------

    def _receive(self, event: Event) -> None:
        self._note(str(event))
        is_over = self.machine.state is SessionState.ENDED
        commands = self.machine.receive(event, self.now)
        assert not (is_over and commands), "an ended session returns commands"
        self._carry_out(commands)

    def _note(self, what: str) -> None:
        self.past.append(f"{self.now:.2f} {self.machine.state.name} {what}")

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Observe(event=SessionEnding()):
                    assert self.observed_end == 0
                case Observe(event=SessionEnded()):
                    self.observed_end += 1
                case Observe(event=CommitFailed()):
                    self.has_failed_commits = True
                case Post(event=JoinWanted() as join):
                    self._check_join(join)
                case Post(event=LeaveWanted()):
                    assert self.is_stuck
                    assert self.machine.outcome.lost
                case StartPartitions(committed=committed):
                    assert not self.machine.is_ending, "an ending session starts partitions"
                    assert not committed.keys() & (self.reading.keys() | self.starting), "starts twice"
                    assert self.calls[:1] == ["setup"], "starts partitions before setup"
                    assert self.notified >= committed.keys(), "starts partitions before their assignment is reported"
                    self.starting |= committed.keys()
                case StopReaders(partitions=partitions, grace_ends=grace_ends):
                    self.starts_cancelled |= bool(partitions and self.starting & partitions)
                    assert grace_ends >= self.now
                    assert grace_ends <= self.now + GRACE
                    for partition in self.reading if partitions is None else partitions:
                        if partition in self.reading:
                            self.reading[partition] = min(self.reading[partition], grace_ends)
                case BreakOffFetch():
                    assert isinstance(self.job, FetchOffsets), "no fetch to break off is under way"
                    self.broken_off = True
                case StopStarting():
                    self.starting.clear()
                    self.broken_off = True
                case DropOffsets(partitions=partitions):
                    self._check_dropped(partitions)
                case FindStuckTasks():
                    stopping = any(by < math.inf for by in self.reading.values())
                    self.is_stuck = stopping or isinstance(self.job, CallHandler)
                    names = ("claim",) if self.is_stuck else ()
                    self._carry_out(self.machine.receive(TasksStuck(names), self.now))
                case UpdateSession(owned=owned):
                    self.shown = owned
                case Observe():
                    pass
        if self.is_awake or self.rng.random() < 0.7:  # otherwise the runner wakes up later
            self._begin_job()
        self._check()

    def _check_join(self, join: JoinWanted) -> None:
        self.joined_since_assignment = True
        owned = set(topic_partitions(join.owned))
        assert self.is_cooperative, "an eager session ends before its member joins again"
        assert not self.machine.is_ending, "an ending session joins"
        held = self.reading.keys() | self.starting | self.notified
        assert owned >= held, f"joins without {held - owned}, which it still holds"
        if not self.has_failed_commits:
            assert not self.dirty - owned, "joins before revoked partitions are committed"
        self.posts.append(join)

    def _check_dropped(self, partitions: frozenset[TopicPartition]) -> None:
        assert not partitions & (self.reading.keys() | self.starting), "dropped though a reader runs"
        assert not partitions & self.notified, "dropped before the revocation is reported"
        if not self.has_failed_commits:
            assert not partitions & self.dirty, "dropped before the commit"
        self.dirty -= partitions

    def _check(self) -> None:
        machine = self.machine
        assert not (self.was_lost and not machine.outcome.lost), "a lost membership is no longer lost"
        self.was_lost = machine.outcome.lost
        assert self.shown == machine.owned, "the handler's session shows other partitions"
        deadline = machine.deadline
        if machine.is_ending:
            assert machine.outcome.reason
            later = LEAST_SECONDS if self.tasks_ended else 0.0
            assert deadline.session_ends <= max(self.session_ends, self.now + later), "the session's end moves later"
            assert deadline.session_ends <= self.now + REBALANCE_TIMEOUT
            self.session_ends = deadline.session_ends
        elif machine.revoking:
            if self.revocation is not None and self.revocation[0] == machine.revoking:
                assert deadline.at <= self.revocation[1], "the revocation's deadline moves later"
            assert deadline.at < math.inf, "revokes without a deadline"
            self.revocation = machine.revoking, deadline.at
        else:
            self.revocation = None
            if machine.state is SessionState.CONSUMING:
                self._check_at_rest()

    def _check_at_rest(self) -> None:
        assert self.machine.deadline.at == math.inf, "nothing is revoked, and a deadline is set"
        assert self.machine._assignment is None
        assert self.machine._rebalance is None
        if not self.joined_since_assignment:
            read = self.reading.keys() | self.starting
            assert read == self.machine.owned == self.assigned, "the readers do not match the assignment"
