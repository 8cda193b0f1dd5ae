"""The transition table of a group's states."""

from __future__ import annotations

import itertools

import pytest

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import (
    TRANSITIONS,
    GroupEvent,
    GroupState,
    IllegalGroupTransitionError,
    next_state,
)

LEGAL = [
    (GroupState.EMPTY, GroupEvent.REBALANCE, GroupState.PREPARING_REBALANCE),
    (GroupState.EMPTY, GroupEvent.LOADED, GroupState.STABLE),
    (GroupState.EMPTY, GroupEvent.REMOVED, GroupState.DEAD),
    (GroupState.PREPARING_REBALANCE, GroupEvent.JOINED, GroupState.COMPLETING_REBALANCE),
    (GroupState.PREPARING_REBALANCE, GroupEvent.DESERTED, GroupState.EMPTY),
    (GroupState.PREPARING_REBALANCE, GroupEvent.REMOVED, GroupState.DEAD),
    (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNED, GroupState.STABLE),
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE, GroupState.PREPARING_REBALANCE),
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED, GroupState.DEAD),
    (GroupState.STABLE, GroupEvent.REBALANCE, GroupState.PREPARING_REBALANCE),
    (GroupState.STABLE, GroupEvent.REMOVED, GroupState.DEAD),
]
ILLEGAL = sorted(
    set(itertools.product(GroupState, GroupEvent)) - {(state, event) for state, event, _ in LEGAL},
    key=lambda pair: (pair[0].value, pair[1].value),
)


def test_table_has_a_row_for_every_state() -> None:
    assert set(TRANSITIONS) == set(GroupState)


@pytest.mark.parametrize(("state", "event", "following"), LEGAL)
def test_legal_event_leads_to_the_next_state(state: GroupState, event: GroupEvent, following: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = state
    group.transition(event, 5.0)
    assert (group.state, group.state_time) == (following, 5.0)


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_illegal_event_raises_and_changes_nothing(state: GroupState, event: GroupEvent) -> None:
    group = ClassicGroup("g")
    group.state = state
    with pytest.raises(
        IllegalGroupTransitionError, match=f"{event.name} cannot happen to a group in state {state.value}"
    ):
        group.transition(event, 5.0)
    assert (group.state, group.state_time) == (state, None)


def test_dead_is_final() -> None:
    for event in GroupEvent:
        with pytest.raises(IllegalGroupTransitionError):
            next_state(GroupState.DEAD, event)
