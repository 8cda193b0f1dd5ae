"""LeaveGroup's rules: who goes, and what each is told."""

from __future__ import annotations

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import NO_MEMBER_ID, LeaveGroupResult, LeaveRequest, LeavingMember
from sarameya.embedded.groups.rebalancer import Rebalancer
from sarameya.error_codes import ErrorCode


class LeaveProcessor:
    """Lets members go, for all groups of one coordinator."""

    def __init__(self, rounds: Rebalancer) -> None:
        self._rounds = rounds

    def leave(self, group: ClassicGroup, request: LeaveRequest, now: float) -> LeaveGroupResult:
        """However many leave at once, one rebalance follows; as in Kafka 4, also if none of them was a member yet."""
        answers = tuple((leaving, self._remove(group, leaving, now)) for leaving in request.members)
        gone = [_told(leaving) for leaving, error in answers if error is ErrorCode.NONE]
        if gone and group.state is not GroupState.EMPTY:
            self._rounds.rebalance(group, f"left: {', '.join(gone)}", now)
        return LeaveGroupResult(ErrorCode.NONE, answers)

    def _remove(self, group: ClassicGroup, leaving: LeavingMember, now: float) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if member_id in group.pending_members:
            self._rounds.remove_pending(group, member_id, now)
            return ErrorCode.NONE
        if member_id == NO_MEMBER_ID and instance_id is not None:
            # An administrator removes a static member and need not know which member id holds it now.
            member_id = group.static_members.get(instance_id, NO_MEMBER_ID)
        refusal = group.refusal(member_id, instance_id)
        if refusal is ErrorCode.NONE:
            self._rounds.remove(group, group.members[member_id], now)
        return refusal


def no_group(request: LeaveRequest) -> LeaveGroupResult:
    """The answer where the group does not exist: nobody is a member of it."""
    return LeaveGroupResult(
        ErrorCode.NONE, tuple((leaving, ErrorCode.UNKNOWN_MEMBER_ID) for leaving in request.members)
    )


def _told(leaving: LeavingMember) -> str:
    """Who, and why (KIP-800)."""
    return f"{leaving.member_id or leaving.group_instance_id} ({leaving.reason or 'no reason given'})"
