"""States of a membership, its transitions, and its reactions to error codes, as complete tables.

A response's error code becomes a reaction (`reaction_to`), and that an input of the table of transitions (`INPUTS`).
Error codes of fetches have their table in `fetch/fetch_cursor.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.error_codes import ErrorCode


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

# -- error codes ----------------------------------------------------------------------------------------


class Reaction(Enum):
    """Reaction of the membership to a response of the coordinator."""

    PROCEED = auto()
    """No error."""
    FORGET_MEMBER = auto()
    """All owned partitions are lost. Forget the member id, and join again at once."""
    DROP_GENERATION = auto()
    """All owned partitions are lost. Forget the generation, keep the member id, and join again at once."""
    ADOPT_MEMBER_ID = auto()
    """Join again with the member id of the response (KIP-394)."""
    REBALANCE = auto()
    """The group rebalances.

    After a heartbeat: rejoin. An eager member first ends its session, and sends heartbeats until then; a cooperative
    member keeps its session. After a join or a sync: rejoin after backoff.
    """
    FIND_COORDINATOR = auto()
    """Find the coordinator again, then send the same request after backoff."""
    RETRY = auto()
    """Send the same request after backoff."""
    RAISE = auto()
    """Raise an error to the caller of `commit()`, or to the claim. The membership goes on."""
    FATAL = auto()
    """`consume()` raises: only a change of the configuration can help."""


class Request(Enum):
    """Requests that the reaction table distinguishes."""

    FIND_COORDINATOR = auto()
    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    LEAVE = auto()
    COMMIT = auto()
    OFFSET_FETCH = auto()


_FOR_ANY_REQUEST: dict[ErrorCode, Reaction] = {
    ErrorCode.NONE: Reaction.PROCEED,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    ErrorCode.ILLEGAL_GENERATION: Reaction.DROP_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REBALANCE,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: Reaction.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Reaction.RETRY,
}

_FOR_ONE_REQUEST: dict[tuple[Request, ErrorCode], Reaction] = {
    (Request.JOIN, ErrorCode.MEMBER_ID_REQUIRED): Reaction.ADOPT_MEMBER_ID,
    (Request.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE): Reaction.RETRY,
    (Request.COMMIT, ErrorCode.REBALANCE_IN_PROGRESS): Reaction.RETRY,
    # Returned while the coordinator's metadata lags behind; raised after some attempts (`OffsetManager`).
    (Request.COMMIT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): Reaction.RETRY,
    (Request.COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE): Reaction.RAISE,
    (Request.COMMIT, ErrorCode.INVALID_COMMIT_OFFSET_SIZE): Reaction.RAISE,
    (Request.COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED): Reaction.RAISE,
    (Request.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT): Reaction.RETRY,
    (Request.OFFSET_FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): Reaction.RETRY,
    (Request.OFFSET_FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED): Reaction.RAISE,
    (Request.OFFSET_FETCH, ErrorCode.REBALANCE_IN_PROGRESS): Reaction.RETRY,
    # The member is leaving. A coordinator that no longer knows it has nothing left to do.
    (Request.LEAVE, ErrorCode.UNKNOWN_MEMBER_ID): Reaction.PROCEED,
    (Request.LEAVE, ErrorCode.ILLEGAL_GENERATION): Reaction.PROCEED,
    (Request.LEAVE, ErrorCode.REBALANCE_IN_PROGRESS): Reaction.PROCEED,
}


def reaction_to(request: Request, code: int) -> Reaction:
    """Return the reaction to an error code in the response to `request`. Codes that no table lists are fatal."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Reaction.FATAL
    return _FOR_ONE_REQUEST.get((request, known)) or _FOR_ANY_REQUEST.get(known, Reaction.FATAL)


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
