"""The states of a session, and a table of all transitions between them.

`machine.py` decides which input is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.protocol.membership.states import IllegalTransitionError


class SessionState(Enum):
    """The job of a session. Partitions that have started are read meanwhile."""

    CONSUMING = auto()
    """There is no job."""
    FETCHING = auto()
    """Committed offsets of new partitions are being fetched."""
    SETTING_UP = auto()
    """The handler's `setup` runs."""
    ASSIGNING = auto()
    """The handler's `partitions_assigned` runs."""
    DRAINING = auto()
    """Readers of revoked partitions are stopping."""
    REVOKING = auto()
    """The handler's `partitions_revoked` runs."""
    COMMITTING = auto()
    """The last commit of revoked partitions is under way."""
    ENDING = auto()
    """The session ends: all tasks of the handler are stopping."""
    RELEASING = auto()
    """The handler's last `partitions_revoked`, or `partitions_lost`, runs."""
    CLEANING_UP = auto()
    """The handler's `cleanup` runs."""
    CLOSING = auto()
    """The last commit is under way."""
    ENDED = auto()
    """The session has ended."""


class SessionInput(Enum):
    """The cause of a transition."""

    ADDED = auto()
    """The assignment may have partitions that are not read yet."""
    SETUP_DUE = auto()
    """`setup` has to be called."""
    ASSIGNED_DUE = auto()
    """`partitions_assigned` has to be called."""
    REVOKED = auto()
    """Partitions are no longer assigned, or no longer subscribed to."""
    CALL_DUE = auto()
    """`partitions_revoked` or `partitions_lost` has to be called."""
    CLEANUP_DUE = auto()
    """`cleanup` has to be called."""
    COMMIT_DUE = auto()
    """Marks have to be committed."""
    DONE = auto()
    """The job is done, or was cancelled for something newer."""
    END = auto()
    """The group, the user or a failure ends the session."""


_END = {SessionInput.END: SessionState.ENDING}

TRANSITIONS: Mapping[SessionState, Mapping[SessionInput, SessionState]] = {
    SessionState.CONSUMING: {
        SessionInput.ADDED: SessionState.FETCHING,
        SessionInput.REVOKED: SessionState.DRAINING,
        **_END,
    },
    SessionState.FETCHING: {
        SessionInput.SETUP_DUE: SessionState.SETTING_UP,
        SessionInput.ASSIGNED_DUE: SessionState.ASSIGNING,
        SessionInput.DONE: SessionState.CONSUMING,
        **_END,
    },
    SessionState.SETTING_UP: {
        SessionInput.ASSIGNED_DUE: SessionState.ASSIGNING,
        SessionInput.DONE: SessionState.CONSUMING,
        **_END,
    },
    SessionState.ASSIGNING: {SessionInput.DONE: SessionState.CONSUMING, **_END},
    SessionState.DRAINING: {
        SessionInput.CALL_DUE: SessionState.REVOKING,
        SessionInput.DONE: SessionState.CONSUMING,
        **_END,
    },
    SessionState.REVOKING: {SessionInput.COMMIT_DUE: SessionState.COMMITTING, **_END},
    SessionState.COMMITTING: {SessionInput.DONE: SessionState.CONSUMING, **_END},
    SessionState.ENDING: {
        SessionInput.CALL_DUE: SessionState.RELEASING,
        SessionInput.CLEANUP_DUE: SessionState.CLEANING_UP,
        SessionInput.COMMIT_DUE: SessionState.CLOSING,
        SessionInput.DONE: SessionState.ENDED,
    },
    SessionState.RELEASING: {SessionInput.CLEANUP_DUE: SessionState.CLEANING_UP, SessionInput.DONE: SessionState.ENDED},
    SessionState.CLEANING_UP: {SessionInput.COMMIT_DUE: SessionState.CLOSING, SessionInput.DONE: SessionState.ENDED},
    SessionState.CLOSING: {SessionInput.DONE: SessionState.ENDED},
    SessionState.ENDED: {},
}
"""state -> input -> next state. Any other input in a state is a bug."""

SHUTTING_DOWN = frozenset(
    {SessionState.ENDING, SessionState.RELEASING, SessionState.CLEANING_UP, SessionState.CLOSING, SessionState.ENDED}
)
"""The states of a session that ends."""


def next_state(state: SessionState, by: SessionInput) -> SessionState:
    """Return the next state. Raises IllegalTransitionError if the table has none."""
    try:
        return TRANSITIONS[state][by]
    except KeyError:
        raise IllegalTransitionError(f"{by.name} in {state.name}") from None
