"""A group and its members: who is in, what they support, who waits for an answer.

Data, and the questions about it. What changes it, and when, is `rounds` and `joining`; time is `sessions`; how it
looks from outside is `views`.
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
    """One member of a group. It waits for at most one answer to a join and one to a sync."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """Its first join has not been answered, so it knows no member id and cannot send heartbeats."""
    next_heartbeat: DelayedOperation | None = None
    """The wait for its next sign of life. Each sign puts a later one in its place."""
    awaiting_join: Reply[JoinGroupResult] | None = None
    awaiting_sync: Reply[SyncGroupResult] | None = None

    @staticmethod
    def joining(request: JoinRequest, member_id: str) -> ClassicGroupMember:
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
        return self.group_instance_id is not None

    def update(self, request: JoinRequest) -> None:
        """Take over what the member says of itself when it joins again."""
        self.protocols = request.protocols
        self.session_timeout = request.session_timeout
        self.rebalance_timeout = request.rebalance_timeout

    def metadata(self, protocol_name: str | None) -> bytes | None:
        """Its subscription under that protocol; None where it does not support it."""
        return next((p.metadata for p in self.protocols if p.name == protocol_name), None)

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its own list that every member supports."""
        return next(p.name for p in self.protocols if p.name in candidates)

    @property
    def must_be_kept_alive(self) -> bool:
        """It waits for an answer of ours, so it is not for it to be heard of."""
        return self.awaiting_join is not None or self.awaiting_sync is not None


class ClassicGroup:
    """A group of the classic protocol. `members` is in the order of joining."""

    def __init__(self, group_id: str, made_at: float | None = None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_time = made_at
        """Since when it is in this state, time of day (seconds since 1970); None where the log does not tell."""
        self.generation = 0
        self.protocol_type: str | None = None
        """None for a group that no member has ever joined: it only commits offsets."""
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        """What the members of this generation read; None where that cannot be told."""
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> the member id that holds it now; any other member id with it is fenced."""
        self.pending_members: set[str] = set()
        """Member ids given out with MEMBER_ID_REQUIRED whose second join has not come yet."""
        self.pending_sync: set[str] = set()
        """Who has had the answer to its join and has not sent its sync yet."""
        self.new_member_added = False
        """Somebody came after the round had begun: a reason to extend the initial delay."""
        self.offsets: dict[TopicPartition, StoredOffset] = {}
        self.stored: GroupRecord | None = None
        """What the log holds of the group: a round that is under way is not in it yet."""

    @staticmethod
    def from_image(image: GroupImage) -> ClassicGroup:
        """The group as another coordinator left it in the log: Stable if it had members, else Empty."""
        group = ClassicGroup(image.group_id)
        group.offsets = dict(image.offsets)
        if image.record is None:
            return group
        record = group.stored = image.record
        group.generation = record.generation
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol_name
        for kept in record.members:
            protocols = (SupportedProtocol(record.protocol_name or "", kept.subscription),)
            group.add(
                ClassicGroupMember(
                    kept.member_id,
                    kept.group_instance_id,
                    kept.client_id,
                    kept.client_host,
                    kept.session_timeout,
                    kept.rebalance_timeout,
                    protocols,
                    kept.assignment,
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
        """Move as the table says. Raises IllegalGroupTransitionError where it says nothing."""
        self.state = next_state(self.state, event)
        self.state_time = time_of_day

    def can_rebalance(self) -> bool:
        return may_happen(self.state, GroupEvent.REBALANCE)

    def next_generation(self, time_of_day: float) -> None:
        """End the join phase with the members that are here, or with none."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        self.pending_sync.clear()
        self.transition(GroupEvent.JOINED if self.members else GroupEvent.DESERTED, time_of_day)

    # --- members -----------------------------------------------------------------------------------------------

    def add(self, member: ClassicGroupMember) -> None:
        """Let a member in. The first to come is the leader."""
        if self.leader is None:
            self.leader = member.member_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)

    def remove(self, member: ClassicGroupMember) -> None:
        """Let a member go. If it led, the member that joined first of those left leads."""
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def replace_static(self, old: ClassicGroupMember, new_id: str) -> ClassicGroupMember:
        """Put a returning static member, under its new id, in the place of the old one, with all it had."""
        new = attrs.evolve(old, member_id=new_id, is_new=False, next_heartbeat=None)
        led, was_pending = self.leader == old.member_id, old.member_id in self.pending_sync
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new_id
        if was_pending:
            self.pending_sync.add(new_id)
        return new

    def has(self, member: ClassicGroupMember) -> bool:
        return self.members.get(member.member_id) is member

    def refusal(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE for a member of this group; else why it is none (KIP-345 for the fencing)."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def awaiting_join(self) -> int:
        """How many members have joined the round that is being prepared."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_members and all(m.awaiting_join is not None for m in self.members.values())

    @property
    def rebalance_timeout(self) -> float:
        """The longest of the members': nobody may be given less than it asked for."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined this round. False: nobody has."""
        if self.leader is not None and self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((m for m in self.members.values() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    # --- protocols ---------------------------------------------------------------------------------------------

    def candidates(self) -> frozenset[str]:
        """The protocols that every member supports."""
        supported = Counter(name for member in self.members.values() for name in {p.name for p in member.protocols})
        return frozenset(name for name, members in supported.items() if members == len(self.members))

    def supports(self, protocol_type: str, protocols: Iterable[SupportedProtocol]) -> bool:
        """Whether a member with these could be in the group without leaving it without a common protocol."""
        names = {p.name for p in protocols}
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if protocol_type != self.protocol_type:
            return False
        return bool(names & self.candidates()) if self.members else bool(names)

    def select_protocol(self) -> str:
        """Each member votes for the first of its list that all support; most votes win, the elder's at a tie."""
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # --- subscriptions -----------------------------------------------------------------------------------------

    def reads(self, topic: str) -> bool:
        """Whether a member reads the topic; each counts as read where consumers' subscriptions cannot be told."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        return topics_of_all(member.metadata(self.protocol_name) or b"" for member in self.members.values())
