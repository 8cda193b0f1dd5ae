"""The states of a session and how it moves between them: one table, the whole truth.

`machine.py` decides which input is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class State(Enum):
    """The work of a session, beside reading the partitions that have started."""

    CONSUMING = auto()
    """There is no other work."""
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


class Input(Enum):
    """The reasons to move on."""

    ADDED = auto()
    """The assignment has partitions that are not read."""
    SETUP_DUE = auto()
    ASSIGNED_DUE = auto()
    REVOKED = auto()
    """Partitions are assigned no longer, or subscribed to no longer."""
    CALL_DUE = auto()
    """The handler has to be called for them."""
    CLEANUP_DUE = auto()
    COMMIT_DUE = auto()
    DONE = auto()
    """The work is done, or has to make way for something newer."""
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
"""state -> input -> next state. What is not here cannot happen."""

SHUTTING_DOWN = frozenset({State.ENDING, State.RELEASING, State.CLEANING_UP, State.CLOSING, State.ENDED})
"""The states of a session that ends."""
