"""The session's state machine on random walks: what must hold stands in `session.py`, what may happen, too.

Each mutant is a fault put into the machine on purpose; some walk must find it.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sarameya.group.session_machine import deadline as deadline_module
from sarameya.group.session_machine.deadline import RevocationDeadline
from sarameya.group.session_machine.machine import SessionMachine
from sarameya.group.session_machine.messages import (
    CloseWanted,
    Commit,
    Drained,
    NewAssignment,
    Post,
    StartPartitions,
    StopReaders,
)
from sarameya.group.session_machine.transitions import SHUTTING_DOWN, TRANSITIONS, Input, State
from sarameya.model import by_topic
from sarameya.protocol.membership.messages import Fail, JoinWanted, MembershipLost, PrepareRebalance
from tests.model.session import SessionWalk

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))
WALKS, STEPS = 500, 90


def walk(rng: random.Random, steps: int = STEPS) -> SessionWalk:
    """Walk at random. What fails has the way there in its notes."""
    one = SessionWalk(rng)
    try:
        for _ in range(steps):
            one.step()
        one.finish()
    except Exception as error:
        error.add_note("\n".join(one.past[-30:]))
        raise
    return one


def walk_many() -> None:
    """Walk as often as it takes to see everything."""
    for seed in range(WALKS):
        walk(random.Random(seed))


@given(st.randoms(use_true_random=False), st.integers(0, STEPS))
@settings(max_examples=300 * SOAK)
def test_session_keeps_its_rules(rng: random.Random, steps: int) -> None:
    walk(rng, steps)


def test_notices_after_the_end_are_in_the_outcome() -> None:
    """A task of the session may have received them before it was cancelled."""
    one = walk(random.Random(1))
    machine, error = one.machine, ValueError()
    outcome = machine.outcome
    assignment = NewAssignment(machine.generation, {})
    assert (outcome.closing, outcome.fatal) == (False, None)
    assert machine.receive(assignment, one.now) == []
    assert outcome.next is assignment
    machine.receive(PrepareRebalance("another member", one.now + 1), one.now)
    assert outcome.next is None
    machine.receive(assignment, one.now)
    machine.receive(MembershipLost("fenced"), one.now)
    assert outcome.next is None
    machine.receive(CloseWanted("closed"), one.now)
    machine.receive(Fail(error), one.now)
    assert (outcome.closing, outcome.fatal) == (True, error)


def test_walks_reach_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walks are worth something: no row of the table is left out."""
    seen: set[tuple[State, Input]] = set()
    move = SessionMachine._move

    def watched(self: SessionMachine, by: Input) -> None:
        seen.add((self.state, by))
        move(self, by)

    monkeypatch.setattr(SessionMachine, "_move", watched)
    walk_many()
    rows = {(state, by) for state, row in TRANSITIONS.items() for by in row}
    assert rows - seen == set()


def test_every_state_but_the_last_can_be_left() -> None:
    for state, row in TRANSITIONS.items():
        assert bool(row) == (state is not State.ENDED)
        assert state in SHUTTING_DOWN or row[Input.END] is State.ENDING


# -- mutants --------------------------------------------------------------------------------------------


class Mutants(SessionMachine):
    """Methods of the machine with a fault in each; `MUTANTS` says which one stands in for which."""

    def no_commit(self, now: float) -> None:
        if told := self.revoking & self._notified:
            self._notified -= told
        self._revoked(now)

    def no_call(self, now: float) -> None:
        self._move(Input.CALL_DUE)
        self._move(Input.COMMIT_DUE)
        self.job = Commit(is_last=False)

    def told_again(self, now: float) -> None:
        told = self._notified
        ORIGINAL["_notify_revoked"](self, now)
        self._notified = told

    def still_owned(self, now: float) -> None:
        owned = self.owned
        ORIGINAL["_revoked"](self, now)
        self.owned = owned

    def still_begun(self, event: Any, now: float) -> None:
        begun = self._started
        ORIGINAL["_job_ended"](self, event, now)
        if isinstance(event, Drained):
            self._started = begun

    def no_deadline(self, deadline: float, now: float) -> None:
        self._commands.append(StopReaders(self.revoking, now + self._options.claim_grace))

    def no_stop(self, deadline: float, now: float) -> None:
        self.deadline.hasten(deadline, now)

    def no_stop_at_the_end(self, reason: str, now: float, **how: Any) -> None:
        ORIGINAL["_end"](self, reason, now, **how)
        self._commands = [each for each in self._commands if not isinstance(each, StopReaders)]

    def found_again(self, reason: str, now: float, *, lost: bool = False, **how: Any) -> None:
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
        if self.state is not State.CONSUMING:
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

    def goes_on(self, *_: Any) -> None:
        self._start()

    def no_answer(self, rebalance: PrepareRebalance, now: float) -> None:
        """Eager: the session goes on through a rebalance."""
        self._rebalance = rebalance


ORIGINAL = dict(vars(SessionMachine))

MUTANTS = {
    "what is revoked is not committed": ("_notify_revoked", Mutants.no_commit),
    "the handler is not told of what is revoked": ("_notify_revoked", Mutants.no_call),
    "what is revoked is told again": ("_notify_revoked", Mutants.told_again),
    "what is revoked stays owned": ("_revoked", Mutants.still_owned),
    "what is revoked counts as read": ("_job_ended", Mutants.still_begun),
    "the deadline is not hastened": ("_hasten", Mutants.no_deadline),
    "readers of what is revoked are not stopped": ("_hasten", Mutants.no_stop),
    "readers are not stopped at the end": ("_end", Mutants.no_stop_at_the_end),
    "a later reason finds a lost membership again": ("_end", Mutants.found_again),
    "partitions start after the end": ("_end", Mutants.starts_late),
    "lost is treated as revoked": ("_end", Mutants.never_lost),
    "cleanup is skipped": ("_set_up", Mutants.no_cleanup),
    "the set-up is skipped": ("_set_up", Mutants.goes_on),
    "a join leaves out what is owned": ("_rejoin", Mutants.joins_without_all),
    "a join comes before the commit": ("_revoke", Mutants.joins_early),
    "an assignment that waits is forgotten": ("_take_assignment", Mutants.forgets_assignment),
    "a rebalance under an eager assignor ends nothing": ("_take_rebalance", Mutants.no_answer),
    "the end is reported twice": ("_ended", Mutants.ends_twice),
    "a lost session commits": ("_next_of_shutdown", Mutants.commits_though_lost),
    "the session never ends": ("_shut_down", Mutants.no_shutdown),
}
"""A fault -> the method that has it, and the method with it."""


def _puts_off(self: RevocationDeadline, deadline: float, now: float) -> float:
    self.at = deadline + 1.0
    return now + self._claim_grace


def _no_grace(self: RevocationDeadline, deadline: float, now: float) -> float:
    self.at = min(self.at, deadline_module.with_least_time(deadline, now))
    return deadline


def _stays(self: RevocationDeadline) -> None:
    pass


DEADLINE_MUTANTS = {
    "the deadline is put off": ("hasten", _puts_off),
    "grace is ignored": ("hasten", _no_grace),
    "the deadline is not lifted": ("lift", _stays),
}


@pytest.mark.parametrize("fault", [*MUTANTS, *DEADLINE_MUTANTS])
def test_walks_find_the_fault(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault in MUTANTS:
        monkeypatch.setattr(SessionMachine, *MUTANTS[fault])
    else:
        monkeypatch.setattr(RevocationDeadline, *DEADLINE_MUTANTS[fault])
    with pytest.raises((AssertionError, KeyError)):  # KeyError: the table has no such row
        walk_many()
