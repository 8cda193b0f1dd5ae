"""Reactions to Kafka's error codes in the responses of a coordinator: one table. Pure.

Error codes of fetches have their table in `fetch/fetch_cursor.py`.
"""

from __future__ import annotations

from enum import Enum, auto

from sarameya.error_codes import ErrorCode


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
