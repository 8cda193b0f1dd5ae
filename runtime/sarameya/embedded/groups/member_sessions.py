"""Who is alive: the heartbeat purgatory and the three waits in it.

A member lives while it is heard of within its session timeout, or while it waits for an answer of ours. What a death
means for the group is for `rounds` to say.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.purgatory import DelayedOperation, Purgatory

MemberFailed = Callable[[ClassicGroup, ClassicGroupMember, float], None]
PendingFailed = Callable[[ClassicGroup, str, float], None]


@attrs.frozen(slots=True)
class MemberKey:
    group_id: str
    member_id: str


class DelayedHeartbeat(DelayedOperation):
    """The next sign of life of a member. Completing does nothing; only expiring has an effect."""

    def __init__(self, group: ClassicGroup, member: ClassicGroupMember, deadline: float, failed: MemberFailed) -> None:
        super().__init__(deadline)
        self.group = group
        self.member = member
        self.failed = failed

    def can_complete(self) -> bool:
        if self.group.state is GroupState.DEAD or not self.group.has(self.member):
            return True
        has_been_heard_of = self.member.next_heartbeat is not self
        return has_been_heard_of or self.member.must_be_kept_alive

    def on_complete(self, now: float) -> None:
        pass

    def on_expire(self, now: float) -> None:
        # It may have begun to wait for us since it was last heard of; the answer will start the clock again.
        if not self.can_complete():
            self.failed(self.group, self.member, now)


class DelayedFirstAnswer(DelayedHeartbeat):
    """The answer to a new member's first join.

    It knows no member id yet and so can send no heartbeat, and a client that gave up and tries again leaves a member
    behind that nobody will ever hear of. So its wait does not keep it alive beyond this deadline.
    """

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD or not self.group.has(self.member) or not self.member.is_new


class DelayedSecondJoin(DelayedOperation):
    """The second join of one that was told MEMBER_ID_REQUIRED (KIP-394)."""

    def __init__(self, group: ClassicGroup, member_id: str, deadline: float, failed: PendingFailed) -> None:
        super().__init__(deadline)
        self.group = group
        self.member_id = member_id
        self.failed = failed

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD or self.member_id not in self.group.pending_members

    def on_complete(self, now: float) -> None:
        pass

    def on_expire(self, now: float) -> None:
        self.failed(self.group, self.member_id, now)


class MemberSessions:
    """The heartbeat purgatory of one coordinator."""

    def __init__(self, member_failed: MemberFailed, pending_failed: PendingFailed) -> None:
        self.purgatory = Purgatory()
        self._member_failed = member_failed
        self._pending_failed = pending_failed

    def heard_of(self, group: ClassicGroup, member: ClassicGroupMember, now: float) -> None:
        """Complete the member's delayed heartbeat and put in the next, one session timeout from now."""
        heartbeat = DelayedHeartbeat(group, member, now + member.session_timeout, self._member_failed)
        member.next_heartbeat = heartbeat
        self.check(group, member.member_id, now)
        self.purgatory.try_complete_else_watch(heartbeat, (MemberKey(group.group_id, member.member_id),), now)

    def await_first_answer(self, group: ClassicGroup, member: ClassicGroupMember, timeout: float, now: float) -> None:
        """Give a new member's first join `timeout` seconds to be answered."""
        self.check(group, member.member_id, now)
        operation = DelayedFirstAnswer(group, member, now + timeout, self._member_failed)
        self.purgatory.try_complete_else_watch(operation, (MemberKey(group.group_id, member.member_id),), now)

    def await_second_join(self, group: ClassicGroup, member_id: str, timeout: float, now: float) -> None:
        """Give one that has just been handed its id `timeout` seconds to come back with it."""
        operation = DelayedSecondJoin(group, member_id, now + timeout, self._pending_failed)
        self.purgatory.try_complete_else_watch(operation, (MemberKey(group.group_id, member_id),), now)

    def check(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """Something about this member has changed: it was heard of, joined, left, or its group is gone."""
        self.purgatory.check_and_complete(MemberKey(group.group_id, member_id), now)
