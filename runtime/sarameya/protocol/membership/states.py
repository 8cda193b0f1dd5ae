"""States of a membership and its transitions: one complete table (compare h11's `_state.py`).

Error codes become inputs by a table, too: `reactions.reaction_to`, then `INPUTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.protocol.reactions import Reaction


class State(Enum):
    """States of the membership. The names follow the coordinator's own (Kafka's ClassicGroupState)."""

    UNJOINED = auto()
    """Not a member of the group, and not joining."""
    PREPARING_REBALANCE = auto()
    """A join is on the wire, or about to be sent."""
    COMPLETING_REBALANCE = auto()
    """Joined; the leader is assigning, or a sync is on the wire."""
    STABLE = auto()
    """The assignment has arrived."""
    REVOKING = auto()
    """The group rebalances: partitions are being revoked, heartbeats go on, the join follows."""
    LOST = auto()
    """The membership and all owned partitions are lost: the session stops and commits nothing, and the join follows."""
    LEAVING = auto()
    """A leave is on the wire, or about to be sent."""
    FENCED = auto()
    """Failed for good: the coordinator has refused us, or retries are exhausted. Only the leave remains."""


class Input(Enum):
    """Inputs of the state table."""

    JOIN_WANTED = auto()
    """The shell wants to join.

    That is: at the start, after it has revoked what a rebalance requires, and when it stops waiting for the response to
    a leave.
    """
    JOINED = auto()
    SYNCED = auto()
    REBALANCE = auto()
    MEMBER_ID_GIVEN = auto()
    MEMBER_FORGOTTEN = auto()
    GENERATION_DROPPED = auto()
    LEAVE_WANTED = auto()
    LEFT = auto()
    REFUSED = auto()
    """Refused by the coordinator, or failed on our side: an assignor raised, or retries are exhausted."""


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
"""state -> input -> next state. An input without a row cannot happen."""

HEARTBEATING = frozenset({_C, _S, _R})
"""States in which the coordinator expects our heartbeats."""

ASSIGNED = frozenset({_S, _R})
"""States in which the coordinator's errors about our generation matter."""

COMMITTING = frozenset({_P, _S, _R})
"""States in which the coordinator accepts commits: not between the responses to a join and to its sync."""

SILENT = frozenset({_U, _X, _F})
"""States in which nothing is sent: only an event from the shell leads out of them."""

INPUTS: Mapping[Reaction, Input] = {
    Reaction.FORGET_MEMBER: Input.MEMBER_FORGOTTEN,
    Reaction.DROP_GENERATION: Input.GENERATION_DROPPED,
    Reaction.ADOPT_MEMBER_ID: Input.MEMBER_ID_GIVEN,
    Reaction.REBALANCE: Input.REBALANCE,
}

ENDS_LOST = frozenset({Input.MEMBER_FORGOTTEN, Input.GENERATION_DROPPED, Input.REFUSED})
"""Inputs after which everything owned is lost: nothing may be committed any more."""


class IllegalTransitionError(Exception):
    """A defect in the shell or in the table: an input without a row in the present state."""


def next_state(state: State, by: Input, cause: str) -> State:
    """Return the next state. Raises IllegalTransitionError if the table has no row."""
    try:
        return TRANSITIONS[state][by]
    except KeyError:
        raise IllegalTransitionError(f"{by.name} in {state.name} ({cause})") from None
