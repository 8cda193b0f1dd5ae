"""The response to a heartbeat: two tables of checks. The first check that holds decides."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import HeartbeatRequest
from sarameya.error_codes import ErrorCode


@attrs.frozen(slots=True)
class HeartbeatCheck:
    """A row of a table: if `holds` returns True, the response is `error`."""

    holds: Callable[[ClassicGroup, HeartbeatRequest], bool]
    error: ErrorCode
    keeps_alive: bool = False
    """True if the heartbeat restarts the session timeout."""


def is_dead(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The group is Dead."""
    return group.state is GroupState.DEAD


def is_preparing(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The group prepares a rebalance."""
    return group.state is GroupState.PREPARING_REBALANCE


def is_not_stable(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The group is not Stable."""
    return group.state is not GroupState.STABLE


def is_fenced(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The instance id belongs to another member id."""
    return group.refusal(request.member_id, request.group_instance_id) is ErrorCode.FENCED_INSTANCE_ID


def is_no_member(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The member id is unknown."""
    return group.refusal(request.member_id, request.group_instance_id) is ErrorCode.UNKNOWN_MEMBER_ID


def is_of_other_generation(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The generation is not the current one."""
    return request.generation != group.generation


def always(group: ClassicGroup, request: HeartbeatRequest) -> bool:
    """The last row of every table."""
    return True


HeartbeatChecks = tuple[HeartbeatCheck, ...]

MEMBER_FIRST: HeartbeatChecks = (
    HeartbeatCheck(is_dead, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    HeartbeatCheck(is_fenced, ErrorCode.FENCED_INSTANCE_ID),
    HeartbeatCheck(is_no_member, ErrorCode.UNKNOWN_MEMBER_ID),
    HeartbeatCheck(is_of_other_generation, ErrorCode.ILLEGAL_GENERATION),
    # A member may drain for longer than its session timeout before it joins again. It must not be removed meanwhile.
    HeartbeatCheck(is_preparing, ErrorCode.REBALANCE_IN_PROGRESS, keeps_alive=True),
    HeartbeatCheck(always, ErrorCode.NONE, keeps_alive=True),
)
"""Today's Kafka. Members send heartbeats from the join's response on, so CompletingRebalance is answered NONE."""

STATE_FIRST: HeartbeatChecks = (
    HeartbeatCheck(is_dead, ErrorCode.UNKNOWN_MEMBER_ID),
    HeartbeatCheck(is_not_stable, ErrorCode.REBALANCE_IN_PROGRESS),
    HeartbeatCheck(is_fenced, ErrorCode.FENCED_INSTANCE_ID),
    HeartbeatCheck(is_no_member, ErrorCode.UNKNOWN_MEMBER_ID),
    HeartbeatCheck(is_of_other_generation, ErrorCode.ILLEGAL_GENERATION),
    HeartbeatCheck(always, ErrorCode.NONE, keeps_alive=True),
)
"""Kafka 0.9. A rebalance is reported before any check of the member; such a heartbeat does not keep it alive."""


def first_that_holds(checks: HeartbeatChecks, group: ClassicGroup, request: HeartbeatRequest) -> HeartbeatCheck:
    """Return the row that decides. Every table ends with a row that always holds."""
    return next(check for check in checks if check.holds(group, request))
