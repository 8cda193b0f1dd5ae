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
call, since any call may move it. `wall_clock` tells the time of day in seconds since 1970, which nothing but the expiry
of offsets goes by. Replies are called when the call's changes are complete, so a reply may call the coordinator again.
A reply whose connection is gone is called all the same; the caller drops it.

`serves(group_id)` says whether this broker answers for a group: NONE, or the code to answer instead (NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE). Authorisation comes before all of this and is the caller's.

`unload` and `load` move a group to another broker's coordinator; what moves is what `__consumer_offsets` holds.

Left to others: bytes on the wire (`apis`), the offsets log (`Journal`), timers and connections (`server`); the rules of
a join (`groups.joining`), a leave (`groups.leaving`), a round (`groups.rounds`), a heartbeat (`groups.heartbeats`),
commits (`groups.committing`), and who is alive (`groups.sessions`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable

from sarameya.embedded.groups import heartbeat_checks, join_processor, leave_processor, offset_rules, views
from sarameya.embedded.groups.config import DEFAULTS, CoordinatorConfig
from sarameya.embedded.groups.join_processor import JoinProcessor
from sarameya.embedded.groups.leave_processor import LeaveProcessor
from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import (
    NO_MEMBER_ID,
    CommitRequest,
    GroupDescription,
    GroupListing,
    HeartbeatRequest,
    JoinGroupResult,
    JoinRequest,
    LeaveGroupResult,
    LeaveRequest,
    OffsetCommitResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    Reply,
    SyncGroupResult,
    SyncRequest,
)
from sarameya.embedded.groups.model.stored import NO_JOURNAL, GroupImage, Journal
from sarameya.embedded.groups.offset_store import OffsetStore
from sarameya.embedded.groups.pending_replies import PendingReplies
from sarameya.embedded.groups.rebalancer import Rebalancer
from sarameya.embedded.groups.retention import RetentionChecks
from sarameya.embedded.purgatory import Purgatory
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition

__all__ = ["GroupCoordinator", "Serves", "serves_all"]

Serves = Callable[[str], ErrorCode]


def serves_all(group_id: str) -> ErrorCode:
    """The `serves` of a coordinator without peers."""
    return ErrorCode.NONE


def timeless() -> float:
    """The `wall_clock` of a coordinator whose offsets never expire: it stands still."""
    return 0.0


class GroupCoordinator:
    """The groups one broker coordinates. See the module's docstring for how to call it."""

    def __init__(
        self,
        config: CoordinatorConfig = DEFAULTS,
        *,
        serves: Serves = serves_all,
        journal: Journal = NO_JOURNAL,
        wall_clock: Callable[[], float] = timeless,
        rng: random.Random | None = None,
    ) -> None:
        self._config = config
        self._serves = serves
        self._journal = journal
        self._groups: dict[str, ClassicGroup] = {}
        self._answers = PendingReplies()
        self._rounds = Rebalancer(config, journal, self._answers, wall_clock)
        self._joining = JoinProcessor(self._rounds, rng or random.Random())
        self._leaving = LeaveProcessor(self._rounds)
        self._committing = OffsetStore(self._rounds)
        self._retention = RetentionChecks(self._groups, config.offsets_retention_check_interval, self.forget_expired)
        self._purgatories: tuple[Purgatory, ...] = (
            self._rounds.sessions.purgatory,
            self._rounds.purgatory,
            self._retention.purgatory,
        )

    # --- membership --------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, now: float, reply: Reply[JoinGroupResult]) -> None:
        """JoinGroup. The first join of an unknown member makes the group; a member id without a group is unknown."""
        out_of_bounds = join_processor.check_bounds(self._config, request)
        error = self._serves(request.group_id)
        group = self._groups.get(request.group_id)
        if out_of_bounds is not ErrorCode.NONE:
            self._answers.put(reply, JoinGroupResult(out_of_bounds, request.member_id))
        elif error is not ErrorCode.NONE:
            self._answers.put(reply, JoinGroupResult(error, NO_MEMBER_ID))
        elif group is not None:
            self._joining.join(group, request, now, reply)
        elif request.member_id == NO_MEMBER_ID:
            group = self._create(request.group_id, now)
            self._rounds.store(group)  # a member id given out is no record, and yet the group is there
            self._joining.join(group, request, now, reply)
        else:
            self._answers.put(reply, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        self._answers.deliver()

    def sync(self, request: SyncRequest, now: float, reply: Reply[SyncGroupResult]) -> None:
        """SyncGroup. Held until the leader's, which alone brings assignments."""
        error = self._refusal(request.group_id)
        group = self._groups.get(request.group_id)
        if error is not ErrorCode.NONE:
            self._answers.put(reply, SyncGroupResult(error))
        elif group is None:
            self._answers.put(reply, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID))
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
        check = heartbeat_checks.first_that_holds(self._config.heartbeat_checks, group, request)
        if check.keeps_alive:
            self._rounds.sessions.heard_of(group, group.members[request.member_id], now)
        return check.error

    def leave(self, request: LeaveRequest, now: float) -> LeaveGroupResult:
        """LeaveGroup. Each of the members named is answered on its own."""
        error = self._refusal(request.group_id)
        if error is not ErrorCode.NONE:
            return LeaveGroupResult(error)
        group = self._groups.get(request.group_id)
        if group is None:
            return leave_processor.no_group(request)
        answer = self._leaving.leave(group, request, now)
        self._answers.deliver()
        return answer

    def expire_member(self, group_id: str, member_id: str, now: float) -> ErrorCode:
        """End a member's session now, as if nothing had been heard of it. UNKNOWN_MEMBER_ID if there is none."""
        group = self._groups.get(group_id)
        if group is None or not self._rounds.expire(group, member_id, now):
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._answers.deliver()
        return ErrorCode.NONE

    # --- offsets -----------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, now: float) -> OffsetCommitResult:
        """OffsetCommit. A simple consumer's first makes its group."""
        error = self._serves(request.group_id)
        group = self._groups.get(request.group_id)
        if error is ErrorCode.NONE:
            error = offset_rules.check_commit(group, request) if group else offset_rules.check_missing_group(request)
        if error is not ErrorCode.NONE:
            return OffsetCommitResult(dict.fromkeys(request.offsets, error))
        if group is None:
            group = self._create(request.group_id, now)
        return self._committing.commit(group, request, now)

    def fetch_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> OffsetFetchResult:
        """OffsetFetch. `partitions` None: all that have a commit. A group that does not exist has committed nothing."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return OffsetFetchResult(error)
        group = self._groups.get(group_id)
        return OffsetFetchResult(error, offset_rules.select(group.offsets if group else {}, partitions))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteResult:
        """OffsetDelete. GROUP_SUBSCRIBED_TO_TOPIC for partitions whose topic a member reads."""
        error = self._refusal(group_id)
        group = self._groups.get(group_id)
        if error is not ErrorCode.NONE or group is None:
            return OffsetDeleteResult(error or ErrorCode.GROUP_ID_NOT_FOUND)
        return self._committing.delete(group, partitions)

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """A topic is gone: so are all commits of its partitions."""
        for group in self._groups.values():
            self._committing.forget(group, partitions)

    def forget_expired(self, now: float) -> None:
        """Forget what has been kept for as long as it is to be kept, and groups that are empty and keep nothing."""
        for group in list(self._groups.values()):
            self._committing.expire(group)
            if group.state is GroupState.EMPTY and not group.offsets:
                self._delete(group, now)

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
        return [views.listing(group) for group in self._groups.values() if not states or group.state in states]

    def delete_group(self, group_id: str, now: float) -> ErrorCode:
        """DeleteGroups, for one group: NON_EMPTY_GROUP while it has members."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._committing.forget(group, list(group.offsets))
        self._delete(group, now)
        return ErrorCode.NONE

    def _delete(self, group: ClassicGroup, now: float) -> None:
        """The end of an Empty group that keeps nothing any more."""
        self._journal.store_group(group.group_id, None)
        self._end(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    def _end(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        del self._groups[group.group_id]
        self._rounds.end(group, error, now)
        self._retention.groups_changed(now)
        self._answers.deliver()

    # --- moving to another coordinator -------------------------------------------------------------------------

    def unload(self, group_id: str, now: float) -> GroupImage | None:
        """Give the group up: everything that waits is answered NOT_COORDINATOR. None: there is no such group."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        self._end(group, ErrorCode.NOT_COORDINATOR, now)
        return GroupImage(group_id, group.stored, group.offsets)

    def load(self, image: GroupImage, now: float) -> None:
        """Take a group over; its members have one session timeout from now to be heard of.

        One with more members than are allowed begins a round, in which the last to come back are turned away.
        Raises ValueError if the group is here already.
        """
        if image.group_id in self._groups:
            raise ValueError(f"group {image.group_id!r} is loaded already; unload it first")
        group = self._groups[image.group_id] = ClassicGroup.from_image(image)
        for member in group.members.values():
            self._rounds.sessions.heard_of(group, member, now)
        if len(group.members) > self._config.max_size:
            reason = f"loaded with {len(group.members)} members, {self._config.max_size} are allowed"
            self._rounds.rebalance(group, reason, now)
        self._retention.groups_changed(now)

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

    # --- before a group is looked at ---------------------------------------------------------------------------

    def _refusal(self, group_id: str) -> ErrorCode:
        # OffsetCommit, OffsetFetch, DescribeGroups and DeleteGroups allow the empty id, for clients older than this.
        return self._serves(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def _create(self, group_id: str, now: float) -> ClassicGroup:
        group = self._groups[group_id] = ClassicGroup(group_id, self._rounds.wall_clock())
        self._retention.groups_changed(now)
        return group
