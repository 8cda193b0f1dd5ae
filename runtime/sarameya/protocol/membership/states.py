"""States of a membership and its transitions, as one complete table (compare h11's `_state.py`).

Tables also convert error codes to inputs: `reactions.reaction_to`, then `INPUTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.protocol.reactions import Reaction


class State(Enum):
    """States of the membership. The names follow the coordinator's own (Kafka's ClassicGroupState)."""

    UNJOINED = auto()
    """Neither a member of the group nor joining it."""
    PREPARING_REBALANCE = auto()
    """A join is on the wire, or about to be sent."""
    COMPLETING_REBALANCE = auto()
    """Joined; the leader is assigning, or a sync is on the wire."""
    STABLE = auto()
    """A member with an assignment."""
    REVOKING = auto()
    """The group rebalances. Partitions are being revoked, and heartbeats go on. The join follows."""
    LOST = auto()
    """Membership and owned partitions are lost. The session stops and commits nothing. The join follows."""
    LEAVING = auto()
    """A leave is on the wire, or about to be sent."""
    FENCED = auto()
    """Failed for good: the coordinator refused this member, or retries are exhausted. Only a leave may follow."""


class Input(Enum):
    """Inputs of the state table."""

    JOIN_WANTED = auto()
    """The shell (`group/membership/member.py`) wants to join.

    It does so at the start, after it has revoked partitions for a rebalance, and when it stops waiting for the response
    to a leave.
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
    """Permanent failure: the coordinator refused a request, an assignor raised, or retries are exhausted."""


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
"""State -> input -> next state. Other inputs of a state cannot happen."""

HEARTBEATING = frozenset({_C, _S, _R})
"""States in which the coordinator expects heartbeats."""

ASSIGNED = frozenset({_S, _R})
"""States in which errors of the coordinator about the generation are handled."""

COMMITTING = frozenset({_P, _S, _R})
"""States in which the coordinator accepts commits. It accepts none between the responses to a join and its sync."""

SILENT = frozenset({_U, _X, _F})
"""States in which nothing is sent. Only an event from the shell ends them."""

INPUTS: Mapping[Reaction, Input] = {
    Reaction.FORGET_MEMBER: Input.MEMBER_FORGOTTEN,
    Reaction.DROP_GENERATION: Input.GENERATION_DROPPED,
    Reaction.ADOPT_MEMBER_ID: Input.MEMBER_ID_GIVEN,
    Reaction.REBALANCE: Input.REBALANCE,
}

ENDS_LOST = frozenset({Input.MEMBER_FORGOTTEN, Input.GENERATION_DROPPED, Input.REFUSED})
"""Inputs by which all owned partitions are lost: nothing may be committed any more."""


class IllegalTransitionError(Exception):
    """Defect of the shell or the table: an input that the table does not have for the current state."""


def next_state(state: State, by: Input, cause: str) -> State:
    """Return the next state. Raises IllegalTransitionError if the table has none."""
    try:
        return TRANSITIONS[state][by]
    except KeyError:
        raise IllegalTransitionError(f"{by.name} in {state.name} ({cause})") from None
