"""The states of a session, and a table of all transitions between them.

`machine.py` decides which input is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class State(Enum):
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


class Input(Enum):
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


_END = {Input.END: State.ENDING}

TRANSITIONS: Mapping[State, Mapping[Input, State]] = {
    State.CONSUMING: {Input.ADDED: State.FETCHING, Input.REVOKED: State.DRAINING, **_END},
    State.FETCHING: {
        Input.SETUP_DUE: State.SETTING_UP,
        Input.ASSIGNED_DUE: State.ASSIGNING,
        Input.DONE: State.CONSUMING,
        **_END,
    },
    State.SETTING_UP: {Input.ASSIGNED_DUE: State.ASSIGNING, Input.DONE: State.CONSUMING, **_END},
    State.ASSIGNING: {Input.DONE: State.CONSUMING, **_END},
    State.DRAINING: {Input.CALL_DUE: State.REVOKING, Input.DONE: State.CONSUMING, **_END},
    State.REVOKING: {Input.COMMIT_DUE: State.COMMITTING, **_END},
    State.COMMITTING: {Input.DONE: State.CONSUMING, **_END},
    State.ENDING: {
        Input.CALL_DUE: State.RELEASING,
        Input.CLEANUP_DUE: State.CLEANING_UP,
        Input.COMMIT_DUE: State.CLOSING,
        Input.DONE: State.ENDED,
    },
    State.RELEASING: {Input.CLEANUP_DUE: State.CLEANING_UP, Input.DONE: State.ENDED},
    State.CLEANING_UP: {Input.COMMIT_DUE: State.CLOSING, Input.DONE: State.ENDED},
    State.CLOSING: {Input.DONE: State.ENDED},
    State.ENDED: {},
}
"""state -> input -> next state. Any other input in a state is a bug."""

SHUTTING_DOWN = frozenset({State.ENDING, State.RELEASING, State.CLEANING_UP, State.CLOSING, State.ENDED})
"""The states of a session that ends."""
