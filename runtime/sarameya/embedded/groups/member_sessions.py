"""Session timeouts: Kafka's heartbeat purgatory, with three kinds of delayed operations.

A member is alive if it sent a request within its session timeout, or while one of its requests is held. `rebalancer`
handles the end of a session.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.purgatory import DelayedOperation, Purgatory

MemberFailed = Callable[[ClassicGroup, ClassicGroupMember, float], None]
"""Called with the group, the member whose session ended, and the current time."""
PendingFailed = Callable[[ClassicGroup, str, float], None]
"""Called with the group, the pending member id that no client used in time, and the current time."""


@attrs.frozen(slots=True)
class MemberKey:
    """Purgatory key of one member."""

    group_id: str
    member_id: str


class DelayedHeartbeat(DelayedOperation):
    """The wait for a member's next heartbeat. Only its expiry has an effect."""

    def __init__(self, group: ClassicGroup, member: ClassicGroupMember, deadline: float, failed: MemberFailed) -> None:
        super().__init__(deadline)
        self.group = group
        self.member = member
        self.failed = failed

    def can_complete(self) -> bool:
        if self.group.state is GroupState.DEAD or not self.group.has(self.member):
            return True
        is_replaced = self.member.next_heartbeat is not self
        return is_replaced or self.member.awaits_result

    def on_complete(self, now: float) -> None:
        pass

    def on_expire(self, now: float) -> None:
        # If a request of the member is held now, the response to it will restart the session timeout.
        if not self.can_complete():
            self.failed(self.group, self.member, now)


class DelayedFirstJoin(DelayedHeartbeat):
    """The wait of a new member's first join for its response.

    The client does not know its member id yet, so it cannot send heartbeats. If it times out and retries, a second
    member is added, and the first one would stay forever. So a held join keeps a new member alive only until this
    deadline.
    """

    def can_complete(self) -> bool:
        return self.group.state is GroupState.DEAD or not self.group.has(self.member) or not self.member.is_new


class DelayedSecondJoin(DelayedOperation):
    """The wait for the second join of a client that was answered MEMBER_ID_REQUIRED (KIP-394)."""

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

    def renew(self, group: ClassicGroup, member: ClassicGroupMember, now: float) -> None:
        """Restart the member's session timeout."""
        heartbeat = DelayedHeartbeat(group, member, now + member.session_timeout, self._member_failed)
        member.next_heartbeat = heartbeat
        self.check(group, member.member_id, now)
        self.purgatory.try_complete_else_watch(heartbeat, (MemberKey(group.group_id, member.member_id),), now)

    def await_first_join(self, group: ClassicGroup, member: ClassicGroupMember, timeout: float, now: float) -> None:
        """Expire a new member if its first join is not answered within `timeout` seconds."""
        self.check(group, member.member_id, now)
        operation = DelayedFirstJoin(group, member, now + timeout, self._member_failed)
        self.purgatory.try_complete_else_watch(operation, (MemberKey(group.group_id, member.member_id),), now)

    def await_second_join(self, group: ClassicGroup, member_id: str, timeout: float, now: float) -> None:
        """Expire a pending member id if no client joins with it within `timeout` seconds."""
        operation = DelayedSecondJoin(group, member_id, now + timeout, self._pending_failed)
        self.purgatory.try_complete_else_watch(operation, (MemberKey(group.group_id, member_id),), now)

    def check(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """Check the member's delayed operations after its request, join or leave, or after its group was removed."""
        self.purgatory.check_and_complete(MemberKey(group.group_id, member_id), now)
