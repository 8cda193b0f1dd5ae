"""The group coordinator: JoinGroup to OffsetFetch, as a pure machine. The file the `apis` call.

It owns the groups one broker coordinates. It does no I/O, reads no clock and holds no thread:

    coordinator = GroupCoordinator(CoordinatorConfig(), serves=is_mine, journal=offsets_log, rng=Random())
    coordinator.join(request, now, reply)       # `reply(answer)` is called exactly once: now, or in a later call
    coordinator.sync(request, now, reply)
    error = coordinator.heartbeat(request, now)      # all the others answer at once
    ...
    coordinator.next_deadline()                 # when to call handle_timer at the latest; None: nothing waits
    coordinator.handle_timer(now)

`now` is any monotonic clock's seconds, the same clock in all calls. The caller asks `next_deadline()` again after every
call, since any call may move it. Replies are called when the call's changes are complete, so a reply may call the
coordinator again. A reply whose connection is gone is called all the same; the caller drops it.

`serves(group_id)` says whether this broker answers for a group: NONE, or the code to answer instead (NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE). Authorisation comes before all of this and is the caller's.

`unload` and `load` move a group to another broker's coordinator; what moves is what `__consumer_offsets` holds.

Left to others: bytes on the wire (`apis`), the offsets log (`Journal`), timers and connections (`server`); the rules of
a join (`groups.joining`), a round (`groups.rounds`), a heartbeat (`groups.heartbeats`), a commit (`groups.offsets`),
and who is alive (`groups.sessions`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping

from sarameya.embedded.groups import heartbeats, offsets, views
from sarameya.embedded.groups.answers import Answers
from sarameya.embedded.groups.config import DEFAULTS, CoordinatorConfig
from sarameya.embedded.groups.group import Group
from sarameya.embedded.groups.joining import Joining
from sarameya.embedded.groups.messages import (
    NO_JOURNAL,
    NO_MEMBER_ID,
    CommitAnswer,
    CommitRequest,
    DeleteOffsetsAnswer,
    GroupDescription,
    GroupImage,
    GroupListing,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    Journal,
    LeaveAnswer,
    LeaveRequest,
    LeavingMember,
    OffsetFetchAnswer,
    Reply,
    SyncAnswer,
    SyncRequest,
)
from sarameya.embedded.groups.rounds import Rounds
from sarameya.embedded.groups.states import GroupState
from sarameya.embedded.purgatory import Purgatory
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition

__all__ = ["GroupCoordinator", "Serves", "serves_all"]

Serves = Callable[[str], ErrorCode]


def serves_all(group_id: str) -> ErrorCode:
    """The `serves` of a coordinator without peers."""
    return ErrorCode.NONE


class GroupCoordinator:
    """The groups one broker coordinates. See the module's docstring for how to call it."""

    def __init__(
        self,
        config: CoordinatorConfig = DEFAULTS,
        *,
        serves: Serves = serves_all,
        journal: Journal = NO_JOURNAL,
        rng: random.Random | None = None,
    ) -> None:
        self._config = config
        self._serves = serves
        self._journal = journal
        self._groups: dict[str, Group] = {}
        self._answers = Answers()
        self._rounds = Rounds(config, journal, self._answers)
        self._joining = Joining(self._rounds, rng or random.Random())

    # --- membership --------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, now: float, reply: Reply[JoinAnswer]) -> None:
        """JoinGroup. The first join of an unknown member makes the group; a member id without a group is unknown."""
        error = self._refusal_of_join(request)
        group = self._groups.get(request.group_id)
        if error is not ErrorCode.NONE:
            self._answers.put(reply, JoinAnswer(error, request.member_id))
        elif group is not None:
            self._joining.join(group, request, now, reply)
        elif request.member_id == NO_MEMBER_ID:
            self._joining.join(self._create(request.group_id), request, now, reply)
        else:
            self._answers.put(reply, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        self._answers.deliver()

    def sync(self, request: SyncRequest, now: float, reply: Reply[SyncAnswer]) -> None:
        """SyncGroup. Held until the leader's, which alone brings assignments."""
        error = self._refusal(request.group_id)
        group = self._groups.get(request.group_id)
        if error is not ErrorCode.NONE:
            self._answers.put(reply, SyncAnswer(error))
        elif group is None:
            self._answers.put(reply, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._rounds.sync(group, request, now, reply)
        self._answers.deliver()

    def heartbeat(self, request: HeartbeatRequest, now: float) -> ErrorCode:
        """Heartbeat. The table of `groups.heartbeats` says what is answered."""
        error = self._refusal(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # answered blindly: nobody shall lose its membership because we are still reading
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        check = heartbeats.first_that_holds(self._config.heartbeat_checks, group, request)
        if check.keeps_alive:
            self._rounds.sessions.heard_of(group, group.members[request.member_id], now)
        return check.error

    def leave(self, request: LeaveRequest, now: float) -> LeaveAnswer:
        """LeaveGroup. However many leave at once, one rebalance follows."""
        error = self._refusal(request.group_id)
        if error is not ErrorCode.NONE:
            return LeaveAnswer(error)
        group = self._groups.get(request.group_id)
        if group is None:
            return LeaveAnswer(error, tuple((leaving, ErrorCode.UNKNOWN_MEMBER_ID) for leaving in request.members))
        before = len(group.members)
        answer = LeaveAnswer(error, tuple((leaving, self._remove(group, leaving, now)) for leaving in request.members))
        if len(group.members) < before:
            self._rounds.rebalance(group, "members have left", now)
        self._answers.deliver()
        return answer

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

    # --- offsets -----------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, now: float) -> CommitAnswer:
        """OffsetCommit. A commit is a sign of life. Too long metadata refuses its own partition alone."""
        error = self._serves(request.group_id)
        group = self._groups.get(request.group_id)
        if error is ErrorCode.NONE:
            error = offsets.check_commit(group, request) if group else offsets.check_missing_group(request)
        if error is not ErrorCode.NONE:
            return CommitAnswer(dict.fromkeys(request.offsets, error))
        if group is None:
            group = self._create(request.group_id)
        limit = self._config.offset_metadata_max_size
        accepted = {tp: offset for tp, offset in request.offsets.items() if len(offset.metadata) <= limit}
        self._store_offsets(group, accepted)
        member = group.members.get(request.member_id)
        if member is not None:
            self._rounds.sessions.heard_of(group, member, now)
        too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
        return CommitAnswer({tp: ErrorCode.NONE if tp in accepted else too_large for tp in request.offsets})

    def fetch_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> OffsetFetchAnswer:
        """OffsetFetch. `partitions` None: all that have a commit. A group that does not exist has committed nothing."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return OffsetFetchAnswer(error)
        group = self._groups.get(group_id)
        return OffsetFetchAnswer(error, offsets.select(group.offsets if group else {}, partitions))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> DeleteOffsetsAnswer:
        """OffsetDelete. GROUP_SUBSCRIBED_TO_TOPIC for partitions whose topic a member reads."""
        error = self._refusal(group_id)
        group = self._groups.get(group_id)
        if error is ErrorCode.NONE:
            error = offsets.check_delete(group) if group else ErrorCode.GROUP_ID_NOT_FOUND
        if group is None or error is not ErrorCode.NONE:
            return DeleteOffsetsAnswer(error)
        errors = {
            tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if offsets.is_subscribed(group, tp.topic) else ErrorCode.NONE
            for tp in partitions
        }
        self._forget_offsets(group, [tp for tp, refusal in errors.items() if refusal is ErrorCode.NONE])
        return DeleteOffsetsAnswer(error, errors)

    def _forget_offsets(self, group: Group, partitions: Iterable[TopicPartition]) -> None:
        self._store_offsets(group, dict.fromkeys(tp for tp in partitions if tp in group.offsets))

    def _store_offsets(self, group: Group, changes: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        if changes:
            self._journal.store_offsets(group.group_id, changes)
        for tp, offset in changes.items():
            if offset is None:
                del group.offsets[tp]
            else:
                group.offsets[tp] = offset

    # --- administration ----------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription:
        """DescribeGroups, for one group."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return GroupDescription(error, group_id)
        group = self._groups.get(group_id)
        return views.description(group) if group else GroupDescription(error, group_id, GroupState.DEAD)

    def list_groups(self, states: Collection[GroupState] = ()) -> list[GroupListing]:
        """ListGroups: all groups here, or those in one of `states`."""
        return [
            GroupListing(group.group_id, group.protocol_type or "", group.state)
            for group in self._groups.values()
            if not states or group.state in states
        ]

    def delete_group(self, group_id: str, now: float) -> ErrorCode:
        """DeleteGroups, for one group: NON_EMPTY_GROUP while it has members."""
        error = self._refusal(group_id)
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._forget_offsets(group, list(group.offsets))
        self._journal.store_group(group_id, None)
        del self._groups[group_id]
        self._rounds.end(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, now)
        return ErrorCode.NONE

    # --- moving to another coordinator -------------------------------------------------------------------------

    def unload(self, group_id: str, now: float) -> GroupImage | None:
        """Give the group up: everything that waits is answered NOT_COORDINATOR. None: there is no such group."""
        group = self._groups.pop(group_id, None)
        if group is None:
            return None
        self._rounds.end(group, ErrorCode.NOT_COORDINATOR, now)
        self._answers.deliver()
        return GroupImage(group_id, group.stored, group.offsets)

    def load(self, image: GroupImage, now: float) -> None:
        """Take a group over; its members have one session timeout from now to be heard of.

        Raises ValueError if the group is here already.
        """
        if image.group_id in self._groups:
            raise ValueError(f"group {image.group_id!r} is loaded already; unload it first")
        group = self._groups[image.group_id] = Group.from_image(image)
        for member in group.members.values():
            self._rounds.sessions.heard_of(group, member, now)

    # --- time --------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When `handle_timer` must be called at the latest; None while nothing waits."""
        deadlines = (purgatory.next_deadline() for purgatory in self._purgatories)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Expire everything that is due, in the order of the deadlines."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            for purgatory in self._purgatories:
                if purgatory.next_deadline() == deadline:
                    purgatory.expire_next(now)
        self._answers.deliver()

    @property
    def _purgatories(self) -> tuple[Purgatory, Purgatory]:
        return self._rounds.sessions.purgatory, self._rounds.purgatory

    # --- before a group is looked at ---------------------------------------------------------------------------

    def _refusal(self, group_id: str) -> ErrorCode:
        # OffsetCommit, OffsetFetch and DescribeGroups allow the empty id, for clients older than this check.
        return self._serves(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def _create(self, group_id: str) -> Group:
        group = self._groups[group_id] = Group(group_id)
        return group

    def _refusal_of_join(self, request: JoinRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not self._config.min_session_timeout <= request.session_timeout <= self._config.max_session_timeout:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return self._serves(request.group_id)
