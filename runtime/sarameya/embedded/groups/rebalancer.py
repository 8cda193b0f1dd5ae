"""A round of rebalancing from its cause to the assignment: the join purgatory and what happens in each phase.

prepare -> (all have joined, or the rebalance timeout) -> next generation, joins answered -> (the leader's sync) ->
assignment stored, syncs answered. Who may join is `joining`'s to say, who is alive `sessions`'.
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

RETRY_AFTER_AT_LEAST = 1.0
"""Seconds to the next try where nobody rejoined in time: a rebalance timeout of 0 must not become a busy loop."""


@attrs.frozen(slots=True)
class GroupJoinKey:
    group_id: str


@attrs.frozen(slots=True)
class GroupSyncKey:
    group_id: str


class DelayedJoin(DelayedOperation):
    """The end of the join phase: when every member has joined, or at the rebalance timeout."""

    def __init__(self, rounds: Rebalancer, group: ClassicGroup, deadline: float) -> None:
        super().__init__(deadline)
        self.rounds = rounds
        self.group = group

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD or self.group.all_have_joined

    def on_complete(self, now: float) -> None:
        self.rounds.complete_join(self.group, now)


class InitialDelayedJoin(DelayedJoin):
    """The end of the join phase of a group that was empty: after the initial delay, which each new member extends.

    It does not end early: that everyone known has joined says nothing where nobody was known.
    """

    def __init__(self, rounds: Rebalancer, group: ClassicGroup, now: float, delay: float, remaining: float) -> None:
        super().__init__(rounds, group, now + delay)
        self.remaining = remaining
        """What is left of the rebalance timeout beyond this delay."""

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD

    def on_complete(self, now: float) -> None:
        if self.group.new_member_added and self.remaining > 0:
            self.group.new_member_added = False
            delay = min(self.rounds.config.initial_rebalance_delay, self.remaining)
            self.rounds.await_joins(
                InitialDelayedJoin(self.rounds, self.group, now, delay, self.remaining - delay), now
            )
        else:
            super().on_complete(now)


class DelayedSync(DelayedOperation):
    """The syncs of a generation's members. Who has sent none at the rebalance timeout is removed."""

    def __init__(self, rounds: Rebalancer, group: ClassicGroup, deadline: float) -> None:
        super().__init__(deadline)
        self.rounds = rounds
        self.group = group

    def can_complete(self) -> bool:
        in_this_generation = self.group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        return not in_this_generation or not self.group.pending_sync

    def on_complete(self, now: float) -> None:
        pass

    def on_expire(self, now: float) -> None:
        self.rounds.expire_sync(self.group, now)


def check_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    """Whether this is the sync of a member of the current generation, at a time for syncs."""
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


def _agree(asked: str | None, chosen: str | None) -> bool:
    """Only what both know can differ: old versions do not ask, and a first round has not chosen yet."""
    return asked is None or chosen is None or asked == chosen


class Rebalancer:
    """The rounds of all groups of one coordinator, and its join purgatory."""

    def __init__(
        self, config: CoordinatorConfig, journal: Journal, answers: PendingReplies, wall_clock: Callable[[], float]
    ) -> None:
        self.config = config
        self.journal = journal
        self.answers = answers
        self.wall_clock = wall_clock
        self.purgatory = Purgatory()
        self.sessions = MemberSessions(self._expire_member, self._expire_pending)

    # --- join phase --------------------------------------------------------------------------------------------

    def rebalance(self, group: ClassicGroup, reason: str, now: float) -> None:
        """Something asks for a round: begin one, or see whether the one being prepared is complete by it."""
        if group.can_rebalance():
            self._prepare(group, reason, now)
        else:
            self.check_join(group, now)

    def check_join(self, group: ClassicGroup, now: float) -> None:
        self.purgatory.check_and_complete(GroupJoinKey(group.group_id), now)

    def await_joins(self, operation: DelayedJoin, now: float) -> None:
        self.purgatory.try_complete_else_watch(operation, (GroupJoinKey(operation.group.group_id),), now)

    def _prepare(self, group: ClassicGroup, reason: str, now: float) -> None:
        log.info("Group %s: preparing to rebalance generation %d: %s", group.group_id, group.generation, reason)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._assign_nothing(group, now)
        is_first_round = group.state is GroupState.EMPTY
        group.transition(GroupEvent.REBALANCE, self.wall_clock())
        self._check_sync(group, now)
        timeout = group.rebalance_timeout
        if is_first_round:
            delay = self.config.initial_rebalance_delay
            self.await_joins(InitialDelayedJoin(self, group, now, delay, max(timeout - delay, 0.0)), now)
        else:
            self.await_joins(DelayedJoin(self, group, now + timeout), now)

    def complete_join(self, group: ClassicGroup, now: float) -> None:
        """End the join phase with those who have joined. A static member may be late; its session decides."""
        if group.state is GroupState.DEAD:
            return
        for member in [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]:
            log.info("Group %s: member %s did not join in time and is removed", group.group_id, member.member_id)
            self.remove(group, member, now)
        if group.members and not group.elect_joined_leader():
            # Static members alone, and none has come: their sessions will end, or they will join.
            self.await_joins(DelayedJoin(self, group, now + max(group.rebalance_timeout, RETRY_AFTER_AT_LEAST)), now)
            return
        group.next_generation(self.wall_clock())
        log.info("Group %s: generation %d has %d members", group.group_id, group.generation, len(group.members))
        if group.state is GroupState.EMPTY:
            self.store(group)
        else:
            self._answer_joins(group, now)

    def _answer_joins(self, group: ClassicGroup, now: float) -> None:
        for member in group.members.values():
            self.answer_join(member, views.join_answer(group, member))
            member.is_new = False
            self.sessions.heard_of(group, member, now)
            group.pending_sync.add(member.member_id)
        delayed_sync = DelayedSync(self, group, now + group.rebalance_timeout)
        self.purgatory.try_complete_else_watch(delayed_sync, (GroupSyncKey(group.group_id),), now)

    def park_join(self, member: ClassicGroupMember, reply: Reply[JoinGroupResult]) -> None:
        """Hold a join until the phase ends. An earlier one of the same member (its client gave up on it) is let go."""
        self.answer_join(member, JoinGroupResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.awaiting_join = reply

    def answer_join(self, member: ClassicGroupMember, answer: JoinGroupResult) -> None:
        """Answer the member's join, if one waits."""
        if member.awaiting_join is not None:
            self.answers.put(member.awaiting_join, answer)
            member.awaiting_join = None

    # --- sync phase --------------------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: SyncRequest, now: float, reply: Reply[SyncGroupResult]) -> None:
        """Take a sync in. In CompletingRebalance it is held until the leader's, which alone brings assignments."""
        refusal = check_sync(group, request)
        if refusal is not ErrorCode.NONE:
            self.answers.put(reply, SyncGroupResult(refusal))
            return
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        self._check_sync(group, now)
        if group.state is GroupState.STABLE:
            # No sign of life (before Kafka 4 it was): whoever syncs again is to beat as well.
            self.answers.put(reply, views.sync_answer(group, member))
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
        # The assignment of this generation will never come; that of the one before no longer means anything.
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        for member in group.members.values():
            if member.awaiting_sync is not None:
                answer = views.sync_answer(group, member) if error is ErrorCode.NONE else SyncGroupResult(error)
                self.answer_sync(member, answer)
                # While it waited, its session may have run out unnoticed: only now it counts again.
                self.sessions.heard_of(group, member, now)

    def answer_sync(self, member: ClassicGroupMember, answer: SyncGroupResult) -> None:
        """Answer the member's sync, if one waits."""
        if member.awaiting_sync is not None:
            self.answers.put(member.awaiting_sync, answer)
            member.awaiting_sync = None

    def _check_sync(self, group: ClassicGroup, now: float) -> None:
        self.purgatory.check_and_complete(GroupSyncKey(group.group_id), now)

    # --- members go --------------------------------------------------------------------------------------------

    def remove(self, group: ClassicGroup, member: ClassicGroupMember, now: float) -> None:
        """Take a member out and let go what it waits for. What that means for the group is asked by `rebalance`."""
        self.answer_join(member, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        self.answer_sync(member, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member)
        self.sessions.check(group, member.member_id, now)

    def dismiss(self, member: ClassicGroupMember, error: ErrorCode) -> None:
        """Answer whatever the member waits for with an error."""
        self.answer_join(member, JoinGroupResult(error, member.member_id))
        self.answer_sync(member, SyncGroupResult(error))

    def remove_pending(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """Forget a member id that was given out: the join phase no longer waits for it."""
        group.pending_members.discard(member_id)
        self.sessions.check(group, member_id, now)
        self.check_join(group, now)

    def expire_sync(self, group: ClassicGroup, now: float) -> None:
        late = sorted(group.pending_sync)
        for member_id in late:
            self.remove(group, group.members[member_id], now)
        self.rebalance(group, f"no sync from {', '.join(late)}", now)

    def expire(self, group: ClassicGroup, member_id: str, now: float) -> bool:
        """End this one's session now, be it a member or one that is to become one. False: it is neither."""
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
        log.info("Group %s: %s did not come back with its member id", group.group_id, member_id)
        self.remove_pending(group, member_id, now)

    # --- the group as a whole ----------------------------------------------------------------------------------

    def store(self, group: ClassicGroup) -> None:
        """Write the group to the log. What is written last is what another coordinator would find."""
        group.stored = views.record(group)
        self.journal.store_group(group.group_id, group.stored)

    def end(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        """The group is gone from here: answer all that waits with `error` and let every operation of it go."""
        group.transition(GroupEvent.REMOVED, self.wall_clock())
        for member in group.members.values():
            self.dismiss(member, error)
        for member_id in [*group.members, *group.pending_members]:
            self.sessions.check(group, member_id, now)
        self.check_join(group, now)
        self._check_sync(group, now)
