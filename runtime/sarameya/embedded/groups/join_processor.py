"""JoinGroup: the checks of a join, and its effect in each state of the group."""

from __future__ import annotations

import random
import uuid

import attrs

from sarameya.embedded.groups import views
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import NO_LEADER, NO_MEMBER_ID, JoinGroupResult, JoinRequest, Reply
from sarameya.embedded.groups.rebalancer import Rebalancer
from sarameya.error_codes import ErrorCode


def check_bounds(config: CoordinatorConfig, request: JoinRequest) -> ErrorCode:
    """Check the group id and the session timeout of a join, before any check of the coordinator or the group."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not config.min_session_timeout <= request.session_timeout <= config.max_session_timeout:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


class JoinProcessor:
    """Handles the joins of all groups of one coordinator, and starts the rebalances that follow."""

    def __init__(self, rebalancer: Rebalancer, rng: random.Random) -> None:
        self._rebalancer = rebalancer
        self._rng = rng

    def join(self, group: ClassicGroup, request: JoinRequest, now: float, reply: Reply[JoinGroupResult]) -> None:
        """Handle the join of a member: add it, let it rejoin, or refuse it. The checks are in Kafka's order."""
        is_unknown = request.member_id == NO_MEMBER_ID
        if not self._has_room(group, request.member_id):
            self._remove_rejected(group, request.member_id, now)
            self._refuse(reply, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse(reply, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif is_unknown and request.group_instance_id is not None:
            self._join_static(group, request, request.group_instance_id, now, reply)
        elif is_unknown:
            self._join_dynamic(group, request, now, reply)
        elif request.member_id in group.pending_members and request.group_instance_id is None:
            self._add(group, request, request.member_id, now, reply)
        else:
            self._rejoin(group, request, now, reply)

    def _refuse(self, reply: Reply[JoinGroupResult], error: ErrorCode, member_id: str) -> None:
        self._rebalancer.replies.put(reply, JoinGroupResult(error, member_id))

    def _new_member_id(self, request: JoinRequest) -> str:
        suffix = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        return f"{prefix}-{suffix}"

    # --- room --------------------------------------------------------------------------------------------------

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._rebalancer.config.max_size
        member = group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            # Only members that have joined this rebalance count, so that the last ones to rejoin are refused.
            return (member is not None and member.awaiting_join is not None) or group.awaiting_join < limit
        return member is not None or len(group.members) < limit

    def _remove_rejected(self, group: ClassicGroup, member_id: str, now: float) -> None:
        if member_id in group.pending_members:
            self._rebalancer.remove_pending(group, member_id, now)
        elif member_id in group.members:
            self._rebalancer.remove(group, group.members[member_id], now)
            self._rebalancer.check_join(group, now)

    # --- new members -------------------------------------------------------------------------------------------

    def _join_dynamic(
        self, group: ClassicGroup, request: JoinRequest, now: float, reply: Reply[JoinGroupResult]
    ) -> None:
        member_id = self._new_member_id(request)
        if not request.requires_known_member_id:
            self._add(group, request, member_id, now, reply)
            return
        # If the client never received the response, a member without a client would stay in the group. So the client
        # must join again with the member id before it is added.
        group.pending_members.add(member_id)
        self._rebalancer.sessions.await_second_join(group, member_id, request.session_timeout, now)
        self._refuse(reply, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add(
        self, group: ClassicGroup, request: JoinRequest, member_id: str, now: float, reply: Reply[JoinGroupResult]
    ) -> None:
        rebalancer = self._rebalancer
        if not group.members:
            group.protocol_type = request.protocol_type
        group.new_member_added = group.state is GroupState.PREPARING_REBALANCE
        member = ClassicGroupMember.joining(request, member_id)
        group.add(member)
        rebalancer.hold_join(member, reply)
        rebalancer.sessions.await_first_join(group, member, rebalancer.config.new_member_join_timeout, now)
        rebalancer.rebalance(group, _reason(f"new member {member_id}", request), now)

    # --- known members -----------------------------------------------------------------------------------------

    def _rejoin(self, group: ClassicGroup, request: JoinRequest, now: float, reply: Reply[JoinGroupResult]) -> None:
        refusal = group.refusal(request.member_id, request.group_instance_id)
        if refusal is not ErrorCode.NONE:
            self._refuse(reply, refusal, request.member_id)
            return
        member = group.members[request.member_id]
        if self._starts_rebalance(group, member, request):
            member.update(request)
            self._rebalancer.hold_join(member, reply)
            self._rebalancer.rebalance(group, _reason(f"member {member.member_id} joins again", request), now)
        else:
            # The response to its last join may have been lost. The generation is still the current one.
            self._rebalancer.replies.put(reply, views.join_result(group, member))

    @staticmethod
    def _starts_rebalance(group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest) -> bool:
        if group.state is GroupState.PREPARING_REBALANCE or request.protocols != member.protocols:
            return True
        # The leader joins again because topics or partition counts have changed, which no member's metadata shows.
        return group.state is GroupState.STABLE and group.leader == member.member_id

    # --- static members (KIP-345) ------------------------------------------------------------------------------

    def _join_static(
        self, group: ClassicGroup, request: JoinRequest, instance_id: str, now: float, reply: Reply[JoinGroupResult]
    ) -> None:
        old_id = group.static_members.get(instance_id)
        new_id = self._new_member_id(request)
        if old_id is None:
            self._add(group, request, new_id, now, reply)
            return
        old_leader = group.leader or NO_LEADER
        member = self._replace(group, group.members[old_id], new_id, now)
        member.update(request)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            self._rebalancer.store(group)
            self._rebalancer.sessions.renew(group, member, now)
            self._rebalancer.replies.put(reply, _returning_member_result(group, member, old_leader, request))
        else:
            self._rebalancer.hold_join(member, reply)
            self._rebalancer.rebalance(group, _reason(f"static member {instance_id} has returned", request), now)

    def _replace(self, group: ClassicGroup, old: ClassicGroupMember, new_id: str, now: float) -> ClassicGroupMember:
        # If two processes use one instance id, the later join wins; the earlier process gets the error at once.
        self._rebalancer.fail_held_requests(old, ErrorCode.FENCED_INSTANCE_ID)
        new = group.replace_static(old, new_id)
        self._rebalancer.sessions.check(group, old.member_id, now)
        return new


def _returning_member_result(
    group: ClassicGroup, member: ClassicGroupMember, old_leader: str, request: JoinRequest
) -> JoinGroupResult:
    """Return the result for a static member that returns to a Stable group.

    Its next sync returns the old assignment, without a rebalance.
    """
    if request.can_skip_assignment:
        # KIP-814: a returning leader is the leader again (it watches the topics), but must not assign now.
        return views.join_result(group, member, skip_assignment=group.leader == member.member_id)
    # Before v9 the response has no such field. With its old id as the leader, the member acts as a follower, which does
    # not assign.
    return attrs.evolve(views.join_result(group, member), leader=old_leader, members=())


def _reason(cause: str, request: JoinRequest) -> str:
    return f"{cause} ({request.reason or 'no reason given'})"
