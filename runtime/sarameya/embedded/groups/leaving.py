"""LeaveGroup's rules: who goes, and what each is told."""

from __future__ import annotations

from sarameya.embedded.groups.group import Group
from sarameya.embedded.groups.messages import NO_MEMBER_ID, LeaveAnswer, LeaveRequest, LeavingMember
from sarameya.embedded.groups.rounds import Rounds
from sarameya.embedded.groups.states import GroupState
from sarameya.error_codes import ErrorCode


class Leaving:
    """Lets members go, for all groups of one coordinator."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def leave(self, group: Group, request: LeaveRequest, now: float) -> LeaveAnswer:
        """However many leave at once, one rebalance follows; as in Kafka 4, also if none of them was a member yet."""
        answers = tuple((leaving, self._remove(group, leaving, now)) for leaving in request.members)
        gone = [_told(leaving) for leaving, error in answers if error is ErrorCode.NONE]
        if gone and group.state is not GroupState.EMPTY:
            self._rounds.rebalance(group, f"left: {', '.join(gone)}", now)
        return LeaveAnswer(ErrorCode.NONE, answers)

    def _remove(self, group: Group, leaving: LeavingMember, now: float) -> ErrorCode:
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


def no_group(request: LeaveRequest) -> LeaveAnswer:
    """The answer where the group does not exist: nobody is a member of it."""
    return LeaveAnswer(ErrorCode.NONE, tuple((leaving, ErrorCode.UNKNOWN_MEMBER_ID) for leaving in request.members))


def _told(leaving: LeavingMember) -> str:
    """Who, and why (KIP-800)."""
    return f"{leaving.member_id or leaving.group_instance_id} ({leaving.reason or 'no reason given'})"
