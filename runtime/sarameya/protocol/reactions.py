"""How each Kafka error code is met in the answers of a coordinator: a table. Pure."""

from __future__ import annotations

from enum import Enum, auto

from sarameya.error_codes import ErrorCode


class Reaction(Enum):
    """What the membership does about an answer of the coordinator."""

    PROCEED = auto()
    """No error."""
    FORGET_MEMBER = auto()
    """Everything owned is lost; forget the member id and join anew at once."""
    DROP_GENERATION = auto()
    """Everything owned is lost; keep the member id, drop the generation, rejoin at once."""
    ADOPT_MEMBER_ID = auto()
    """Join again with the member id that came with the answer (KIP-394)."""
    REBALANCE = auto()
    """The group rebalances. Heartbeat: end the session, go on heartbeating. Join, sync: rejoin after backoff."""
    FIND_COORDINATOR = auto()
    """Find the coordinator again, then send the same request after backoff."""
    RETRY = auto()
    """Send the same request after backoff."""
    RAISE = auto()
    """Raised to whoever asked (the caller of `commit()`, the claim); the membership goes on."""
    FATAL = auto()
    """`consume()` raises; nothing will help but another configuration."""


class Request(Enum):
    """The requests whose answers the reaction table tells apart."""

    FIND_COORDINATOR = auto()
    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    LEAVE = auto()
    COMMIT = auto()
    OFFSET_FETCH = auto()


_EVERYWHERE: dict[ErrorCode, Reaction] = {
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

_FOR: dict[tuple[Request, ErrorCode], Reaction] = {
    (Request.JOIN, ErrorCode.MEMBER_ID_REQUIRED): Reaction.ADOPT_MEMBER_ID,
    (Request.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE): Reaction.RETRY,
    (Request.COMMIT, ErrorCode.REBALANCE_IN_PROGRESS): Reaction.RETRY,
    # Said while the coordinator's metadata lags behind; raised after some tries (`OffsetManager`).
    (Request.COMMIT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): Reaction.RETRY,
    (Request.COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE): Reaction.RAISE,
    (Request.COMMIT, ErrorCode.INVALID_COMMIT_OFFSET_SIZE): Reaction.RAISE,
    (Request.COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED): Reaction.RAISE,
    (Request.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT): Reaction.RETRY,
    (Request.OFFSET_FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): Reaction.RETRY,
    (Request.OFFSET_FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED): Reaction.RAISE,
    (Request.OFFSET_FETCH, ErrorCode.REBALANCE_IN_PROGRESS): Reaction.RETRY,
    # We are leaving: whoever no longer knows us has nothing left to be told.
    (Request.LEAVE, ErrorCode.UNKNOWN_MEMBER_ID): Reaction.PROCEED,
    (Request.LEAVE, ErrorCode.ILLEGAL_GENERATION): Reaction.PROCEED,
    (Request.LEAVE, ErrorCode.REBALANCE_IN_PROGRESS): Reaction.PROCEED,
}


def reaction_to(request: Request, code: int) -> Reaction:
    """How the membership meets `code` in the answer to `request`; an unknown code is fatal."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Reaction.FATAL
    return _FOR.get((request, known)) or _EVERYWHERE.get(known, Reaction.FATAL)
