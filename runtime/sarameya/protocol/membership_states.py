"""The states of a membership and how it moves between them: one table, the whole truth (h11's `_state.py`).

How an error code becomes an input is a table too: `reactions.reaction_to`, then `INPUTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.protocol.reactions import Reaction


class State(Enum):
    """Where the membership stands. The names follow the coordinator's own (Kafka's ClassicGroupState)."""

    UNJOINED = auto()
    """No member of the group, and not trying to be."""
    PREPARING_REBALANCE = auto()
    """A join is on the wire, or about to be."""
    COMPLETING_REBALANCE = auto()
    """Joined; the leader is assigning, or a sync is on the wire."""
    STABLE = auto()
    """The assignment is in hand."""
    REVOKING = auto()
    """The group rebalances: what must be given up is being given up, heartbeats go on, the join follows."""
    LOST = auto()
    """The membership is gone, and all it owned: whatever ran on it stops and commits nothing; the join follows."""
    LEAVING = auto()
    """A leave is on the wire, or about to be."""
    FENCED = auto()
    """Failed for good: the coordinator has refused us, or we have given up. All that is left is to say good-bye."""


class Input(Enum):
    """What can happen to a membership."""

    JOIN_WANTED = auto()
    """The shell wants in: at the start, whenever it has given up what a rebalance wants given up, and when it no longer
    waits for a leave to be answered."""
    JOINED = auto()
    SYNCED = auto()
    REBALANCE = auto()
    MEMBER_ID_GIVEN = auto()
    MEMBER_FORGOTTEN = auto()
    GENERATION_DROPPED = auto()
    LEAVE_WANTED = auto()
    LEFT = auto()
    REFUSED = auto()
    """By the coordinator, or by ourselves: an assignor has failed, tries are exhausted."""


_U, _P, _C, _S = State.UNJOINED, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE
_R, _X, _L, _F = State.REVOKING, State.LOST, State.LEAVING, State.FENCED

TRANSITIONS: Mapping[State, Mapping[Input, State]] = {
    _U: {
        Input.JOIN_WANTED: _P,
        Input.LEAVE_WANTED: _L,
    },
    _P: {
        Input.JOINED: _C,
        Input.MEMBER_ID_GIVEN: _P,
        Input.MEMBER_FORGOTTEN: _X,
        Input.GENERATION_DROPPED: _X,
        Input.REBALANCE: _P,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
    _C: {
        Input.SYNCED: _S,
        Input.REBALANCE: _P,
        Input.MEMBER_FORGOTTEN: _X,
        Input.GENERATION_DROPPED: _X,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
    _S: {
        Input.JOIN_WANTED: _P,
        Input.REBALANCE: _R,
        Input.MEMBER_FORGOTTEN: _X,
        Input.GENERATION_DROPPED: _X,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
    _R: {
        Input.JOIN_WANTED: _P,
        Input.REBALANCE: _R,
        Input.MEMBER_FORGOTTEN: _X,
        Input.GENERATION_DROPPED: _X,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
    _X: {
        Input.JOIN_WANTED: _P,
        Input.REBALANCE: _X,
        Input.MEMBER_FORGOTTEN: _X,
        Input.GENERATION_DROPPED: _X,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
    _L: {
        Input.JOIN_WANTED: _P,
        Input.LEFT: _U,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
    _F: {
        Input.JOIN_WANTED: _F,
        Input.LEAVE_WANTED: _L,
        Input.REFUSED: _F,
    },
}
"""state -> input -> next state. What is not here cannot happen."""

HEARTBEATING = frozenset({_C, _S, _R})
"""The states in which the coordinator expects to hear from us."""

ASSIGNED = frozenset({_S, _R})
"""The states in which what the coordinator says of our generation is news."""

COMMITTING = frozenset({_P, _S, _R})
"""The states in which the coordinator takes commits: between a join's answer and the sync's it does not."""

SILENT = frozenset({_U, _X, _F})
"""The states in which nothing is sent: only the shell's wish, if anything, leads out of them."""

INPUTS: Mapping[Reaction, Input] = {
    Reaction.FORGET_MEMBER: Input.MEMBER_FORGOTTEN,
    Reaction.DROP_GENERATION: Input.GENERATION_DROPPED,
    Reaction.ADOPT_MEMBER_ID: Input.MEMBER_ID_GIVEN,
    Reaction.REBALANCE: Input.REBALANCE,
}

ENDS_LOST = frozenset({Input.MEMBER_FORGOTTEN, Input.GENERATION_DROPPED, Input.REFUSED})
"""Inputs after which everything owned is lost: nothing may be committed any more."""


class IllegalTransitionError(Exception):
    """A defect in the shell or in the table: an input that has no row in the present state."""


def next_state(state: State, by: Input, cause: str) -> State:
    """The state that follows. Raises IllegalTransitionError where the table has no row."""
    try:
        return TRANSITIONS[state][by]
    except KeyError:
        raise IllegalTransitionError(f"{by.name} in {state.name} ({cause})") from None
