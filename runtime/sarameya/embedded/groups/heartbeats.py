"""What a heartbeat is answered: two tables of checks, read from the top, the first row that holds decides."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from sarameya.embedded.groups.group import Group
from sarameya.embedded.groups.messages import HeartbeatRequest
from sarameya.embedded.groups.states import GroupState
from sarameya.error_codes import ErrorCode


@attrs.frozen(slots=True)
class Check:
    """One row: if `holds`, the answer is `error`; `keeps_alive`: the member has been heard of all the same."""

    holds: Callable[[Group, HeartbeatRequest], bool]
    error: ErrorCode
    keeps_alive: bool = False


def is_dead(group: Group, request: HeartbeatRequest) -> bool:
    return group.state is GroupState.DEAD


def is_preparing(group: Group, request: HeartbeatRequest) -> bool:
    return group.state is GroupState.PREPARING_REBALANCE


def is_not_stable(group: Group, request: HeartbeatRequest) -> bool:
    return group.state is not GroupState.STABLE


def is_fenced(group: Group, request: HeartbeatRequest) -> bool:
    return group.refusal(request.member_id, request.group_instance_id) is ErrorCode.FENCED_INSTANCE_ID


def is_no_member(group: Group, request: HeartbeatRequest) -> bool:
    return group.refusal(request.member_id, request.group_instance_id) is ErrorCode.UNKNOWN_MEMBER_ID


def is_of_other_generation(group: Group, request: HeartbeatRequest) -> bool:
    return request.generation != group.generation


def always(group: Group, request: HeartbeatRequest) -> bool:
    return True


HeartbeatChecks = tuple[Check, ...]

MEMBER_FIRST: HeartbeatChecks = (
    Check(is_dead, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    Check(is_fenced, ErrorCode.FENCED_INSTANCE_ID),
    Check(is_no_member, ErrorCode.UNKNOWN_MEMBER_ID),
    Check(is_of_other_generation, ErrorCode.ILLEGAL_GENERATION),
    # A member may drain for longer than its session timeout before it joins again: it must live that long.
    Check(is_preparing, ErrorCode.REBALANCE_IN_PROGRESS, keeps_alive=True),
    Check(always, ErrorCode.NONE, keeps_alive=True),
)
"""Today's Kafka: heartbeats begin with the join's answer, so CompletingRebalance is answered NONE."""

STATE_FIRST: HeartbeatChecks = (
    Check(is_dead, ErrorCode.UNKNOWN_MEMBER_ID),
    Check(is_not_stable, ErrorCode.REBALANCE_IN_PROGRESS),
    Check(is_fenced, ErrorCode.FENCED_INSTANCE_ID),
    Check(is_no_member, ErrorCode.UNKNOWN_MEMBER_ID),
    Check(is_of_other_generation, ErrorCode.ILLEGAL_GENERATION),
    Check(always, ErrorCode.NONE, keeps_alive=True),
)
"""Kafka 0.9's order: a rebalance is answered before anything else is looked at, and keeps nobody alive."""


def first_that_holds(checks: HeartbeatChecks, group: Group, request: HeartbeatRequest) -> Check:
    """The row that decides. Every table ends with a row that always holds."""
    return next(check for check in checks if check.holds(group, request))
