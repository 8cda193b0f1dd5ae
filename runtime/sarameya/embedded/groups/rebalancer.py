"""A rebalance from its cause to the assignment: Kafka's join purgatory, and the actions of each phase.

1. Prepare: members must join. This ends when all have joined, or after the rebalance timeout.
2. The next generation starts, and all joins are answered.
3. The leader's sync contains the assignment, which is stored. All syncs are answered.

`join_processor` decides which members may join, `member_sessions` which members are alive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import attrs

from sarameya.embedded.groups import views
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.member_sessions import MemberSessions
from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupEvent, GroupState
from sarameya.embedded.groups.model.messages import NO_MEMBER_ID, JoinGroupResult, Reply, SyncGroupResult, SyncRequest
from sarameya.embedded.groups.model.stored import Journal
from sarameya.embedded.groups.pending_replies import PendingReplies
from sarameya.embedded.purgatory import DelayedOperation, Purgatory
from sarameya.error_codes import ErrorCode

log = logging.getLogger(__name__)

MIN_RETRY_WAIT = 1.0
"""Least seconds to wait again if no member rejoined in time. A rebalance timeout of 0 would cause a busy loop."""


@attrs.frozen(slots=True)
class GroupJoinKey:
    """Purgatory key of a group's join phase."""

    group_id: str


@attrs.frozen(slots=True)
class GroupSyncKey:
    """Purgatory key of a group's sync phase."""

    group_id: str


class DelayedJoin(DelayedOperation):
    """The end of the join phase: when every member has joined, or at the rebalance timeout."""

    def __init__(self, rebalancer: Rebalancer, group: ClassicGroup, deadline: float) -> None:
        super().__init__(deadline)
        self.rebalancer = rebalancer
        self.group = group

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD or self.group.all_have_joined

    def on_complete(self, now: float) -> None:
        self.rebalancer.complete_join(self.group, now)


class InitialDelayedJoin(DelayedJoin):
    """The end of the join phase of a group that was empty: after the initial delay, which each new member extends.

    It does not end early: an empty group has no known members to wait for.
    """

    def __init__(self, rebalancer: Rebalancer, group: ClassicGroup, now: float, delay: float, remaining: float) -> None:
        super().__init__(rebalancer, group, now + delay)
        self.remaining = remaining
        """Seconds left of the rebalance timeout after this delay."""

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD

    def on_complete(self, now: float) -> None:
        if self.group.new_member_added and self.remaining > 0:
            self.group.new_member_added = False
            delay = min(self.rebalancer.config.initial_rebalance_delay, self.remaining)
            self.rebalancer.await_joins(
                InitialDelayedJoin(self.rebalancer, self.group, now, delay, self.remaining - delay), now
            )
        else:
            super().on_complete(now)


class DelayedSync(DelayedOperation):
    """The wait for the syncs of a generation. Members without a sync at the rebalance timeout are removed."""

    def __init__(self, rebalancer: Rebalancer, group: ClassicGroup, deadline: float) -> None:
        super().__init__(deadline)
        self.rebalancer = rebalancer
        self.group = group

    def can_complete(self) -> bool:
        in_this_generation = self.group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        return not in_this_generation or not self.group.pending_sync

    def on_complete(self, now: float) -> None:
        pass

    def on_expire(self, now: float) -> None:
        self.rebalancer.expire_sync(self.group, now)


def check_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    """Check that a sync is from a member of the current generation, and that the group accepts syncs now."""
    refusal = group.refusal(request.member_id, request.group_instance_id)
    if refusal is not ErrorCode.NONE:
        return refusal
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if not _agree(request.protocol_type, group.protocol_type) or not _agree(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _agree(requested: str | None, chosen: str | None) -> bool:
    """Return True unless both names are known and differ.

    Old versions of the request have no names, and during a first rebalance no protocol is chosen yet.
    """
    return requested is None or chosen is None or requested == chosen


class Rebalancer:
    """The rebalances of all groups of one coordinator, and its join purgatory."""

    def __init__(
        self, config: CoordinatorConfig, journal: Journal, replies: PendingReplies, wall_clock: Callable[[], float]
    ) -> None:
        self.config = config
        self.journal = journal
        self.replies = replies
        self.wall_clock = wall_clock
        self.purgatory = Purgatory()
        self.sessions = MemberSessions(self._expire_member, self._expire_pending)

    # --- join phase --------------------------------------------------------------------------------------------

    def rebalance(self, group: ClassicGroup, reason: str, now: float) -> None:
        """Start a rebalance, or check whether the one in preparation is now complete."""
        if group.can_rebalance():
            self._prepare(group, reason, now)
        else:
            self.check_join(group, now)

    def check_join(self, group: ClassicGroup, now: float) -> None:
        """Complete the join phase if every member has joined."""
        self.purgatory.check_and_complete(GroupJoinKey(group.group_id), now)

    def await_joins(self, operation: DelayedJoin, now: float) -> None:
        """Wait for the end of a join phase."""
        self.purgatory.try_complete_else_watch(operation, (GroupJoinKey(operation.group.group_id),), now)

    def _prepare(self, group: ClassicGroup, reason: str, now: float) -> None:
        log.info("Group %s: preparing to rebalance generation %d: %s", group.group_id, group.generation, reason)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._assign_nothing(group, now)
        is_first_rebalance = group.state is GroupState.EMPTY
        group.transition(GroupEvent.REBALANCE, self.wall_clock())
        self._check_sync(group, now)
        timeout = group.rebalance_timeout
        if is_first_rebalance:
            delay = self.config.initial_rebalance_delay
            self.await_joins(InitialDelayedJoin(self, group, now, delay, max(timeout - delay, 0.0)), now)
        else:
            self.await_joins(DelayedJoin(self, group, now + timeout), now)

    def complete_join(self, group: ClassicGroup, now: float) -> None:
        """End the join phase with the members that have joined.

        A static member that has not joined stays until its session ends.
        """
        if group.state is GroupState.DEAD:
            return
        for member in [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]:
            log.info("Group %s: removed member %s, which did not join in time", group.group_id, member.member_id)
            self.remove(group, member, now)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has joined. Wait until they join or their sessions end.
            self.await_joins(DelayedJoin(self, group, now + max(group.rebalance_timeout, MIN_RETRY_WAIT)), now)
            return
        group.next_generation(self.wall_clock())
        log.info("Group %s: generation %d has %d members", group.group_id, group.generation, len(group.members))
        if group.state is GroupState.EMPTY:
            self.store(group)
        else:
            self._answer_joins(group, now)

    def _answer_joins(self, group: ClassicGroup, now: float) -> None:
        for member in group.members.values():
            self.answer_join(member, views.join_result(group, member))
            member.is_new = False
            self.sessions.renew(group, member, now)
            group.pending_sync.add(member.member_id)
        delayed_sync = DelayedSync(self, group, now + group.rebalance_timeout)
        self.purgatory.try_complete_else_watch(delayed_sync, (GroupSyncKey(group.group_id),), now)

    def hold_join(self, member: ClassicGroupMember, reply: Reply[JoinGroupResult]) -> None:
        """Hold a join until the join phase ends.

        If an earlier join of the same member is held, its client has timed out; that join gets an error.
        """
        self.answer_join(member, JoinGroupResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.awaiting_join = reply

    def answer_join(self, member: ClassicGroupMember, result: JoinGroupResult) -> None:
        """Answer the member's held join, if there is one."""
        if member.awaiting_join is not None:
            self.replies.put(member.awaiting_join, result)
            member.awaiting_join = None

    # --- sync phase --------------------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: SyncRequest, now: float, reply: Reply[SyncGroupResult]) -> None:
        """Handle a sync. In CompletingRebalance it is held until the leader's sync, which contains the assignments."""
        refusal = check_sync(group, request)
        if refusal is not ErrorCode.NONE:
            self.replies.put(reply, SyncGroupResult(refusal))
            return
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        self._check_sync(group, now)
        if group.state is GroupState.STABLE:
            # A sync does not renew the session (before Kafka 4 it did): the member must send heartbeats, too.
            self.replies.put(reply, views.sync_result(group, member))
            return
        self.answer_sync(member, SyncGroupResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = reply
        if group.leader == member.member_id:
            self._assign(group, request.assignments, now)

    def _assign(self, group: ClassicGroup, assignments: Mapping[str, bytes], now: float) -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self.store(group)
        group.transition(GroupEvent.ASSIGNED, self.wall_clock())
        self._answer_syncs(group, ErrorCode.NONE, now)

    def _assign_nothing(self, group: ClassicGroup, now: float) -> None:
        # This generation will never get an assignment, and the previous generation's is no longer valid.
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        for member in group.members.values():
            if member.awaiting_sync is not None:
                result = views.sync_result(group, member) if error is ErrorCode.NONE else SyncGroupResult(error)
                self.answer_sync(member, result)
                # The session timeout may have passed while the sync was held, so it starts again now.
                self.sessions.renew(group, member, now)

    def answer_sync(self, member: ClassicGroupMember, result: SyncGroupResult) -> None:
        """Answer the member's held sync, if there is one."""
        if member.awaiting_sync is not None:
            self.replies.put(member.awaiting_sync, result)
            member.awaiting_sync = None

    def _check_sync(self, group: ClassicGroup, now: float) -> None:
        self.purgatory.check_and_complete(GroupSyncKey(group.group_id), now)

    # --- removal of members ------------------------------------------------------------------------------------

    def remove(self, group: ClassicGroup, member: ClassicGroupMember, now: float) -> None:
        """Remove a member and answer its held requests. Call `rebalance` afterwards for the effect on the group."""
        self.answer_join(member, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        self.answer_sync(member, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member)
        self.sessions.check(group, member.member_id, now)

    def fail_held_requests(self, member: ClassicGroupMember, error: ErrorCode) -> None:
        """Answer the member's held requests with an error."""
        self.answer_join(member, JoinGroupResult(error, member.member_id))
        self.answer_sync(member, SyncGroupResult(error))

    def remove_pending(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """Remove a pending member id, so that the join phase no longer waits for it."""
        group.pending_members.discard(member_id)
        self.sessions.check(group, member_id, now)
        self.check_join(group, now)

    def expire_sync(self, group: ClassicGroup, now: float) -> None:
        """Remove the members that did not send a sync in time."""
        late = sorted(group.pending_sync)
        for member_id in late:
            self.remove(group, group.members[member_id], now)
        self.rebalance(group, f"no sync from {', '.join(late)}", now)

    def expire(self, group: ClassicGroup, member_id: str, now: float) -> bool:
        """End the session of a member or a pending member id now. Return False if there is none."""
        if member_id in group.members:
            self._expire_member(group, group.members[member_id], now)
        elif member_id in group.pending_members:
            self._expire_pending(group, member_id, now)
        else:
            return False
        return True

    def _expire_member(self, group: ClassicGroup, member: ClassicGroupMember, now: float) -> None:
        self.remove(group, member, now)
        self.rebalance(group, f"member {member.member_id} has failed", now)

    def _expire_pending(self, group: ClassicGroup, member_id: str, now: float) -> None:
        log.info("Group %s: no second join with member id %s", group.group_id, member_id)
        self.remove_pending(group, member_id, now)

    # --- the group as a whole ----------------------------------------------------------------------------------

    def store(self, group: ClassicGroup) -> None:
        """Write the group to the journal. Another coordinator would load this version."""
        group.stored = views.record(group)
        self.journal.store_group(group.group_id, group.stored)

    def end(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        """Remove the group from this coordinator.

        All held requests are answered with `error`, and every operation completes.
        """
        group.transition(GroupEvent.REMOVED, self.wall_clock())
        for member in group.members.values():
            self.fail_held_requests(member, error)
        for member_id in [*group.members, *group.pending_members]:
            self.sessions.check(group, member_id, now)
        self.check_join(group, now)
        self._check_sync(group, now)
