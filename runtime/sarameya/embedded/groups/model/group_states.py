"""The states of a group and the one table of its transitions. Nothing else moves a group's state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class GroupState(Enum):
    """Where a group stands; the values are the names DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    """No members: how every group begins. What it has committed lives on, until that expires; a group used only for
    commits is always Empty."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must join (again); their joins wait in the join purgatory."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; followers' syncs wait for the leader's (formerly AwaitingSync)."""
    STABLE = "Stable"
    """Every member has, or can fetch by a sync, its assignment."""
    DEAD = "Dead"
    """Deleted, expired, or moved to another coordinator. Final."""


class GroupEvent(Enum):
    """What may happen to a group as a whole."""

    REBALANCE = auto()
    """A member came, left, failed or changed what it supports; or the leader asked for a round."""
    JOINED = auto()
    """The join phase is over and members are here: the next generation begins."""
    DESERTED = auto()
    """The join phase is over and no member is here."""
    ASSIGNED = auto()
    """The leader's assignment arrived."""
    LOADED = auto()
    """The log of another coordinator was read, and it had members."""
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
    """Whether the table has an entry for it."""
    return event in TRANSITIONS[state]


def next_state(state: GroupState, event: GroupEvent) -> GroupState:
    """The state `event` leads to. Raises IllegalGroupTransitionError where the table has no entry."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalGroupTransitionError(state, event) from None
