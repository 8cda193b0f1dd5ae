"""LeaveGroup: removes members, with a result for each member."""

from __future__ import annotations

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import NO_MEMBER_ID, LeaveGroupResult, LeaveRequest, LeavingMember
from sarameya.embedded.groups.rebalancer import Rebalancer
from sarameya.error_codes import ErrorCode


class LeaveProcessor:
    """Handles the leaves of all groups of one coordinator."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def leave(self, group: ClassicGroup, request: LeaveRequest, now: float) -> LeaveGroupResult:
        """Remove the named members.

        One rebalance follows, however many members leave. As in Kafka 4, it follows even if all were pending members.
        """
        results = tuple((leaving, self._remove(group, leaving, now)) for leaving in request.members)
        left = [_describe(leaving) for leaving, error in results if error is ErrorCode.NONE]
        if left and group.state is not GroupState.EMPTY:
            self._rebalancer.rebalance(group, f"left: {', '.join(left)}", now)
        return LeaveGroupResult(ErrorCode.NONE, results)

    def _remove(self, group: ClassicGroup, leaving: LeavingMember, now: float) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if member_id in group.pending_members:
            self._rebalancer.remove_pending(group, member_id, now)
            return ErrorCode.NONE
        if member_id == NO_MEMBER_ID and instance_id is not None:
            # An administrator removes a static member without knowing its current member id.
            member_id = group.static_members.get(instance_id, NO_MEMBER_ID)
        refusal = group.refusal(member_id, instance_id)
        if refusal is ErrorCode.NONE:
            self._rebalancer.remove(group, group.members[member_id], now)
        return refusal


def result_without_group(request: LeaveRequest) -> LeaveGroupResult:
    """Return the result for a group that does not exist: every member is unknown."""
    return LeaveGroupResult(
        ErrorCode.NONE, tuple((leaving, ErrorCode.UNKNOWN_MEMBER_ID) for leaving in request.members)
    )


def _describe(leaving: LeavingMember) -> str:
    """Return the member and its reason for leaving (KIP-800)."""
    return f"{leaving.member_id or leaving.group_instance_id} ({leaving.reason or 'no reason given'})"
