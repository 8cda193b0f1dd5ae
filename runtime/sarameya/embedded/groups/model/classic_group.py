"""A group of the classic protocol: its members, their protocols, and their held requests.

This module has the data and lookups in it. `rebalancer` and `join_processor` change a group, `member_sessions` has the
timeouts, and `views` converts it to responses and records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from sarameya.embedded.groups.model.group_states import GroupEvent, GroupState, may_happen, next_state
from sarameya.embedded.groups.model.messages import (
    JoinGroupResult,
    JoinRequest,
    Reply,
    SupportedProtocol,
    SyncGroupResult,
)
from sarameya.embedded.groups.model.stored import GroupImage, GroupRecord, StoredOffset
from sarameya.embedded.groups.model.subscriptions import CONSUMER_PROTOCOL_TYPE, topics_of_all
from sarameya.embedded.purgatory import DelayedOperation
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition


@attrs.define(slots=True, eq=False)
class ClassicGroupMember:
    """A member of a group, with at most one held join and one held sync."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """True until its first join is answered. Until then the client has no member id, so it cannot send heartbeats."""
    next_heartbeat: DelayedOperation | None = None
    """The operation that waits for its next heartbeat. Each request replaces it with a later one."""
    awaiting_join: Reply[JoinGroupResult] | None = None
    """The reply of its held join; None if no join is held."""
    awaiting_sync: Reply[SyncGroupResult] | None = None
    """The reply of its held sync; None if no sync is held."""

    @staticmethod
    def joining(request: JoinRequest, member_id: str) -> ClassicGroupMember:
        """Return a new member for a join request."""
        return ClassicGroupMember(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout,
            request.rebalance_timeout,
            request.protocols,
            is_new=True,
        )

    @property
    def is_static(self) -> bool:
        """True if it has an instance id (KIP-345)."""
        return self.group_instance_id is not None

    def update(self, request: JoinRequest) -> None:
        """Copy the protocols and timeouts of a later join."""
        self.protocols = request.protocols
        self.session_timeout = request.session_timeout
        self.rebalance_timeout = request.rebalance_timeout

    def metadata(self, protocol_name: str | None) -> bytes | None:
        """Return its metadata for a protocol; None if it does not support the protocol."""
        return next((p.metadata for p in self.protocols if p.name == protocol_name), None)

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first protocol of its list that is in `candidates`, the protocols that all members support."""
        return next(p.name for p in self.protocols if p.name in candidates)

    @property
    def awaits_result(self) -> bool:
        """True if a request of the member is held. Meanwhile it stays alive without heartbeats."""
        return self.awaiting_join is not None or self.awaiting_sync is not None


class ClassicGroup:
    """A group of the classic protocol. `members` is in the order in which they joined."""

    def __init__(self, group_id: str, created_at: float | None = None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_time = created_at
        """Time of the last state change (seconds since 1970); None if the log does not contain it."""
        self.generation = 0
        self.protocol_type: str | None = None
        """The protocol type; None for a group that no member has ever joined, used only for commits."""
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        """Topics that the members of this generation subscribe to; None if unknown."""
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        """The current member id of each instance id. Any other member id with the same instance id is fenced."""
        self.pending_members: set[str] = set()
        """Member ids returned with MEMBER_ID_REQUIRED that no client has joined with yet."""
        self.pending_sync: set[str] = set()
        """Members whose join was answered and that have not sent their sync yet."""
        self.new_member_added = False
        """True if a member joined after the rebalance had started: a reason to extend the initial delay."""
        self.offsets: dict[TopicPartition, StoredOffset] = {}
        self.stored: GroupRecord | None = None
        """The group as the log holds it, without a rebalance in progress."""

    @staticmethod
    def from_image(image: GroupImage) -> ClassicGroup:
        """Return a group from its last version in the log: Stable if it had members, else Empty."""
        group = ClassicGroup(image.group_id)
        group.offsets = dict(image.offsets)
        if image.record is None:
            return group
        record = group.stored = image.record
        group.generation = record.generation
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol_name
        for stored in record.members:
            protocols = (SupportedProtocol(record.protocol_name or "", stored.subscription),)
            group.add(
                ClassicGroupMember(
                    stored.member_id,
                    stored.group_instance_id,
                    stored.client_id,
                    stored.client_host,
                    stored.session_timeout,
                    stored.rebalance_timeout,
                    protocols,
                    stored.assignment,
                )
            )
        group.leader = record.leader
        if group.members:
            group.transition(GroupEvent.LOADED, record.state_time)
        group.state_time = record.state_time
        group.subscribed_topics = group._read_subscriptions()
        return group

    # --- state -------------------------------------------------------------------------------------------------

    def transition(self, event: GroupEvent, time_of_day: float | None) -> None:
        """Change the state according to the table of transitions.

        Raises:
            IllegalGroupTransitionError: The table has no entry.
        """
        self.state = next_state(self.state, event)
        self.state_time = time_of_day

    def can_rebalance(self) -> bool:
        """Return True if a rebalance may start in this state."""
        return may_happen(self.state, GroupEvent.REBALANCE)

    def next_generation(self, time_of_day: float) -> None:
        """End the join phase with the current members, or with none."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        self.pending_sync.clear()
        self.transition(GroupEvent.JOINED if self.members else GroupEvent.DESERTED, time_of_day)

    # --- members -----------------------------------------------------------------------------------------------

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member. The first one is the leader."""
        if self.leader is None:
            self.leader = member.member_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member. If it was the leader, the member that joined first becomes the leader."""
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def replace_static(self, old: ClassicGroupMember, new_id: str) -> ClassicGroupMember:
        """Replace a static member by a copy with a new member id and the same state. Return the copy."""
        new = attrs.evolve(old, member_id=new_id, is_new=False, next_heartbeat=None)
        was_leader, was_pending = self.leader == old.member_id, old.member_id in self.pending_sync
        self.remove(old)
        self.add(new)
        if was_leader:
            self.leader = new_id
        if was_pending:
            self.pending_sync.add(new_id)
        return new

    def has(self, member: ClassicGroupMember) -> bool:
        """Return True if this object is the current member with its member id."""
        return self.members.get(member.member_id) is member

    def refusal(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE for a member of this group, else the error code (with fencing as in KIP-345)."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def awaiting_join(self) -> int:
        """The number of members that have joined the rebalance in preparation."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """True if every member has joined and no member id is pending."""
        return not self.pending_members and all(m.awaiting_join is not None for m in self.members.values())

    @property
    def rebalance_timeout(self) -> float:
        """The longest rebalance timeout of the members, since no member may get less time than it requested."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    def elect_joined_leader(self) -> bool:
        """Elect a member that has joined this rebalance, if the leader has not. Return False if none has joined."""
        if self.leader is not None and self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((m for m in self.members.values() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    # --- protocols ---------------------------------------------------------------------------------------------

    def candidates(self) -> frozenset[str]:
        """Return the protocols that every member supports."""
        supported = Counter(name for member in self.members.values() for name in {p.name for p in member.protocols})
        return frozenset(name for name, members in supported.items() if members == len(self.members))

    def supports(self, protocol_type: str, protocols: Iterable[SupportedProtocol]) -> bool:
        """Return True if the group would still have a common protocol with a member that has these protocols."""
        names = {p.name for p in protocols}
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if protocol_type != self.protocol_type:
            return False
        return bool(names & self.candidates()) if self.members else bool(names)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes; at a tie, the one of the member that joined first.

        Each member votes for the first protocol of its list that all members support.
        """
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # --- subscriptions -----------------------------------------------------------------------------------------

    def subscribes_to(self, topic: str) -> bool:
        """Return True if a member subscribes to the topic.

        If the subscriptions of consumers are unknown, the result is True for every topic.
        """
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        return topics_of_all(member.metadata(self.protocol_name) or b"" for member in self.members.values())
