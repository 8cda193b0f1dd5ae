"""The session's state machine on random walks. `session.py` has the events and the invariants.

Each mutant is a deliberate fault in the machine; some walk must find it.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sarameya.group.membership.notices import CloseWanted, NewAssignment
from sarameya.group.session_machine import deadline as deadline_module
from sarameya.group.session_machine.deadline import RevocationDeadline
from sarameya.group.session_machine.machine import SessionMachine
from sarameya.group.session_machine.messages import (
    Commit,
    Drained,
    Post,
    StartPartitions,
    StopReaders,
)
from sarameya.group.session_machine.transitions import (
    SHUTTING_DOWN,
    TRANSITIONS,
    SessionInput,
    SessionState,
    next_state,
)
from sarameya.model import by_topic
from sarameya.protocol.membership.messages import Fail, JoinWanted, MembershipLost, PrepareRebalance
from sarameya.protocol.membership.states import IllegalTransitionError
from tests.model.session import SessionWalk

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))
WALKS, STEPS = 500, 90


def walk(rng: random.Random, steps: int = STEPS) -> SessionWalk:
    """Walk at random. An exception has the last events in its notes."""
    session = SessionWalk(rng)
    try:
        for _ in range(steps):
            session.step()
        session.finish()
    except Exception as error:
        error.add_note("\n".join(session.past[-30:]))
        raise
    return session


def walk_many() -> None:
    """Walk often enough to reach every transition."""
    for seed in range(WALKS):
        walk(random.Random(seed))


@given(st.randoms(use_true_random=False), st.integers(0, STEPS))
@settings(max_examples=300 * SOAK)
def test_session_keeps_its_invariants(rng: random.Random, steps: int) -> None:
    walk(rng, steps)


def test_notices_after_the_end_are_in_the_outcome() -> None:
    """A task of the session may have received them before it was cancelled."""
    session = walk(random.Random(1))
    machine, error = session.machine, ValueError()
    outcome = machine.outcome
    assignment = NewAssignment(machine.generation, {})
    assert (outcome.closing, outcome.fatal) == (False, None)
    assert machine.receive(assignment, session.now) == []
    assert outcome.next is assignment
    machine.receive(PrepareRebalance("another member", session.now + 1), session.now)
    assert outcome.next is None
    machine.receive(assignment, session.now)
    machine.receive(MembershipLost("fenced"), session.now)
    assert outcome.next is None
    machine.receive(CloseWanted("closed"), session.now)
    machine.receive(Fail(error), session.now)
    assert (outcome.closing, outcome.fatal) == (True, error)


def test_walks_reach_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walks must cover every row of the table."""
    seen: set[tuple[SessionState, SessionInput]] = set()
    move = SessionMachine._move

    def watched(self: SessionMachine, by: SessionInput) -> None:
        seen.add((self.state, by))
        move(self, by)

    monkeypatch.setattr(SessionMachine, "_move", watched)
    walk_many()
    rows = {(state, by) for state, row in TRANSITIONS.items() for by in row}
    assert rows - seen == set()


def test_every_state_but_the_last_can_be_left() -> None:
    for state, row in TRANSITIONS.items():
        assert bool(row) == (state is not SessionState.ENDED)
        assert state in SHUTTING_DOWN or row[SessionInput.END] is SessionState.ENDING


def test_impossible_input_is_named_with_its_state() -> None:
    with pytest.raises(IllegalTransitionError, match="ADDED in ENDED"):
        next_state(SessionState.ENDED, SessionInput.ADDED)


# -- mutants --------------------------------------------------------------------------------------------


class Mutants(SessionMachine):
    """Methods of the machine, each with a fault. `MUTANTS` has the method that each of them replaces."""

    def no_commit(self, now: float) -> None:
        if revoked := self.revoking & self._notified:
            self._notified -= revoked
        self._revoked(now)

    def no_call(self, now: float) -> None:
        self._move(SessionInput.CALL_DUE)
        self._move(SessionInput.COMMIT_DUE)
        self.job = Commit(is_last=False)

    def reported_twice(self, now: float) -> None:
        notified = self._notified
        ORIGINAL["_notify_revoked"](self, now)
        self._notified = notified

    def still_owned(self, now: float) -> None:
        owned = self.owned
        ORIGINAL["_revoked"](self, now)
        self.owned = owned

    def still_started(self, event: Any, now: float) -> None:
        started = self._started
        ORIGINAL["_job_ended"](self, event, now)
        if isinstance(event, Drained):
            self._started = started

    def no_deadline(self, deadline: float, now: float) -> None:
        self._commands.append(StopReaders(self.revoking, now + self._options.claim_grace))

    def no_stop(self, deadline: float, now: float) -> None:
        self.deadline.hasten(deadline, now)

    def no_stop_at_the_end(self, reason: str, now: float, **how: Any) -> None:
        ORIGINAL["_end"](self, reason, now, **how)
        self._commands = [each for each in self._commands if not isinstance(each, StopReaders)]

    def not_lost_any_more(self, reason: str, now: float, *, lost: bool = False, **how: Any) -> None:
        ORIGINAL["_end"](self, reason, now, lost=lost, **how)
        self.outcome.lost = lost

    def starts_late(self, reason: str, now: float, **how: Any) -> None:
        ORIGINAL["_end"](self, reason, now, **how)
        self._commands.append(StartPartitions(self._fetched))

    def no_cleanup(self) -> None:
        ORIGINAL["_set_up"](self)
        self._needs_cleanup = False

    def joins_without_all(self, reason: str) -> None:
        owned, self.owned = self.owned, frozenset()
        ORIGINAL["_rejoin"](self, reason)
        self.owned = owned

    def joins_early(self, partitions: Any, deadline: float, now: float) -> None:
        ORIGINAL["_revoke"](self, partitions, deadline, now)
        self._commands.append(Post(JoinWanted("early", by_topic(sorted(self.owned - self.revoking)))))

    def forgets_assignment(self, new: NewAssignment) -> None:
        ORIGINAL["_take_assignment"](self, new)
        if self.state is not SessionState.CONSUMING:
            self._assignment = None

    def ends_twice(self) -> None:
        ORIGINAL["_ended"](self)
        self._commands.append(self._commands[-1])

    def commits_though_lost(self) -> None:
        self.outcome.lost, lost = False, self.outcome.lost
        ORIGINAL["_next_of_shutdown"](self)
        self.outcome.lost = lost

    def never_lost(self, reason: str, now: float, *, lost: bool = False, **how: Any) -> None:
        ORIGINAL["_end"](self, reason, now, **how)

    def no_shutdown(self, now: float) -> None:
        pass

    def no_setup(self, *_: Any) -> None:
        self._start()

    def no_end_at_a_rebalance(self, rebalance: PrepareRebalance, now: float) -> None:
        """Continue an eager session through a rebalance."""
        self._rebalance = rebalance


ORIGINAL = dict(vars(SessionMachine))

MUTANTS = {
    "revoked partitions are not committed": ("_notify_revoked", Mutants.no_commit),
    "the handler is not notified of revoked partitions": ("_notify_revoked", Mutants.no_call),
    "revoked partitions are reported twice": ("_notify_revoked", Mutants.reported_twice),
    "revoked partitions stay owned": ("_revoked", Mutants.still_owned),
    "revoked partitions count as started": ("_job_ended", Mutants.still_started),
    "the deadline is not hastened": ("_hasten", Mutants.no_deadline),
    "readers of revoked partitions are not stopped": ("_hasten", Mutants.no_stop),
    "readers are not stopped at the end": ("_end", Mutants.no_stop_at_the_end),
    "a later reason restores a lost membership": ("_end", Mutants.not_lost_any_more),
    "partitions start after the end": ("_end", Mutants.starts_late),
    "lost is treated as revoked": ("_end", Mutants.never_lost),
    "cleanup is skipped": ("_set_up", Mutants.no_cleanup),
    "the set-up is skipped": ("_set_up", Mutants.no_setup),
    "a join omits owned partitions": ("_rejoin", Mutants.joins_without_all),
    "a join comes before the commit": ("_revoke", Mutants.joins_early),
    "a waiting assignment is forgotten": ("_take_assignment", Mutants.forgets_assignment),
    "a rebalance under an eager assignor ends nothing": ("_take_rebalance", Mutants.no_end_at_a_rebalance),
    "the end is reported twice": ("_ended", Mutants.ends_twice),
    "a lost session commits": ("_next_of_shutdown", Mutants.commits_though_lost),
    "the session never ends": ("_shut_down", Mutants.no_shutdown),
}
"""Fault -> the name of a method, and the faulty method that replaces it."""


def _postpones(self: RevocationDeadline, deadline: float, now: float) -> float:
    self.at = deadline + 1.0
    return now + self._claim_grace


def _no_grace(self: RevocationDeadline, deadline: float, now: float) -> float:
    self.at = min(self.at, deadline_module.with_least_time(deadline, now))
    return deadline


def _stays(self: RevocationDeadline) -> None:
    pass


DEADLINE_MUTANTS = {
    "the deadline is postponed": ("hasten", _postpones),
    "grace is ignored": ("hasten", _no_grace),
    "the deadline is not lifted": ("lift", _stays),
}


@pytest.mark.parametrize("fault", [*MUTANTS, *DEADLINE_MUTANTS])
def test_walks_find_the_fault(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault in MUTANTS:
        monkeypatch.setattr(SessionMachine, *MUTANTS[fault])
    else:
        monkeypatch.setattr(RevocationDeadline, *DEADLINE_MUTANTS[fault])
    with pytest.raises((AssertionError, IllegalTransitionError)):
        walk_many()
