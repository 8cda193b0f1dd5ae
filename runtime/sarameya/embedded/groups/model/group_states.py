"""The states of a group and the table of its transitions. Only this table changes a group's state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class GroupState(Enum):
    """State of a group. The values are the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    """No members: the initial state. Commits are kept until they expire. A group used only for commits stays Empty."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must join, also the old ones again; their joins wait in the join purgatory."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Every member has joined; the followers' syncs wait for the leader's (formerly AwaitingSync)."""
    STABLE = "Stable"
    """The assignment is known: every member has its part, or gets it with its next sync."""
    DEAD = "Dead"
    """Deleted, expired, or moved to another coordinator. Final."""


class GroupEvent(Enum):
    """An event that may change the state of a group."""

    REBALANCE = auto()
    """A member joined, left, failed or changed its protocols, or the leader requested a rebalance."""
    JOINED = auto()
    """The join phase is over with at least one member: the next generation begins."""
    DESERTED = auto()
    """The join phase is over without members."""
    ASSIGNED = auto()
    """The leader's assignment arrived."""
    LOADED = auto()
    """The group was loaded from the log and has members."""
    REMOVED = auto()
    """The group was deleted, has expired, or was unloaded."""


TRANSITIONS: Mapping[GroupState, Mapping[GroupEvent, GroupState]] = {
    GroupState.EMPTY: {
        GroupEvent.REBALANCE: GroupState.PREPARING_REBALANCE,
        GroupEvent.LOADED: GroupState.STABLE,
        GroupEvent.REMOVED: GroupState.DEAD,
    },
    GroupState.PREPARING_REBALANCE: {
        GroupEvent.JOINED: GroupState.COMPLETING_REBALANCE,
        GroupEvent.DESERTED: GroupState.EMPTY,
        GroupEvent.REMOVED: GroupState.DEAD,
    },
    GroupState.COMPLETING_REBALANCE: {
        GroupEvent.ASSIGNED: GroupState.STABLE,
        GroupEvent.REBALANCE: GroupState.PREPARING_REBALANCE,
        GroupEvent.REMOVED: GroupState.DEAD,
    },
    GroupState.STABLE: {
        GroupEvent.REBALANCE: GroupState.PREPARING_REBALANCE,
        GroupEvent.REMOVED: GroupState.DEAD,
    },
    GroupState.DEAD: {},
}


class IllegalGroupTransitionError(AssertionError):
    """An event that cannot happen in a group's state: a bug of the coordinator, never of a client."""

    def __init__(self, state: GroupState, event: GroupEvent) -> None:
        super().__init__(f"{event.name} cannot happen to a group in state {state.value}")
        self.state = state
        self.event = event


def may_happen(state: GroupState, event: GroupEvent) -> bool:
    """Return True if `event` can happen in `state`."""
    return event in TRANSITIONS[state]


def next_state(state: GroupState, event: GroupEvent) -> GroupState:
    """Return the state after `event`.

    Raises:
        IllegalGroupTransitionError: The event cannot happen in this state.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalGroupTransitionError(state, event) from None
