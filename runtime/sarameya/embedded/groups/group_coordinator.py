"""The group coordinator: JoinGroup to OffsetFetch as a pure state machine. `apis` calls this module.

It owns the groups that one broker coordinates. It does no I/O, reads no clock and starts no thread:

    coordinator = GroupCoordinator(CoordinatorConfig(), serves=is_mine, journal=offsets_log, rng=Random())
    coordinator.join(request, now, reply)       # `reply(result)` is called exactly once: now, or in a later call
    coordinator.sync(request, now, reply)
    error = coordinator.heartbeat(request, now)      # all other methods return their result
    ...
    coordinator.next_deadline()                 # when to call handle_timer at the latest; None: nothing waits
    coordinator.handle_timer(now)

`now` is the time in seconds of any monotonic clock, the same in all calls. Call `next_deadline()` again after every
call, since any call may change it. Replies are called after the call's changes are complete, so a reply may call the
coordinator again. A reply is called even if its connection is closed; the caller discards it.

`unload` and `load` move a group to another broker's coordinator. They move exactly what `__consumer_offsets` holds.

Not done here: the wire format (`apis`), the offsets log (`Journal`), timers and connections (`network.server`), and
authorisation, which the caller checks first.
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
"""Returns NONE if this broker coordinates a group, else the error code to return.

The codes are NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE.
"""


def serves_all(group_id: str) -> ErrorCode:
    """Return NONE: a coordinator without peers serves every group."""
    return ErrorCode.NONE


def timeless() -> float:
    """Return 0, as the `wall_clock` of a coordinator whose offsets never expire."""
    return 0.0


class GroupCoordinator:
    """The groups of one broker. The module's docstring shows how to call it.

    Args:
        config: Settings.
        serves: Decides whether this broker coordinates a group.
        journal: Stores commits and group metadata before a request is answered.
        wall_clock: Seconds since 1970, used only to expire offsets.
        rng: Generates member ids.
    """

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
        self._replies = PendingReplies()
        self._rebalancer = Rebalancer(config, journal, self._replies, wall_clock)
        self._join_processor = JoinProcessor(self._rebalancer, rng or random.Random())
        self._leave_processor = LeaveProcessor(self._rebalancer)
        self._offset_store = OffsetStore(self._rebalancer)
        self._retention = RetentionChecks(self._groups, config.offsets_retention_check_interval, self.forget_expired)
        self._purgatories: tuple[Purgatory, ...] = (
            self._rebalancer.sessions.purgatory,
            self._rebalancer.purgatory,
            self._retention.purgatory,
        )

    # --- membership --------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, now: float, reply: Reply[JoinGroupResult]) -> None:
        """Handle JoinGroup.

        The first join without a member id creates the group. A join with a member id needs an existing group.
        """
        out_of_bounds = join_processor.check_bounds(self._config, request)
        error = self._serves(request.group_id)
        group = self._groups.get(request.group_id)
        if out_of_bounds is not ErrorCode.NONE:
            self._replies.put(reply, JoinGroupResult(out_of_bounds, request.member_id))
        elif error is not ErrorCode.NONE:
            self._replies.put(reply, JoinGroupResult(error, NO_MEMBER_ID))
        elif group is not None:
            self._join_processor.join(group, request, now, reply)
        elif request.member_id == NO_MEMBER_ID:
            group = self._create(request.group_id, now)
            self._rebalancer.store(group)  # the group exists from now on, even if its only member id is still pending
            self._join_processor.join(group, request, now, reply)
        else:
            self._replies.put(reply, JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        self._replies.deliver()

    def sync(self, request: SyncRequest, now: float, reply: Reply[SyncGroupResult]) -> None:
        """Handle SyncGroup. The request is held until the leader's sync contains the assignment."""
        error = self._check_group(request.group_id)
        group = self._groups.get(request.group_id)
        if error is not ErrorCode.NONE:
            self._replies.put(reply, SyncGroupResult(error))
        elif group is None:
            self._replies.put(reply, SyncGroupResult(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._rebalancer.sync(group, request, now, reply)
        self._replies.deliver()

    def heartbeat(self, request: HeartbeatRequest, now: float) -> ErrorCode:
        """Handle Heartbeat. The table in `heartbeat_checks` decides the response."""
        error = self._check_group(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # no member may lose its membership because this coordinator is still loading
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        check = heartbeat_checks.first_that_holds(self._config.heartbeat_checks, group, request)
        if check.keeps_alive:
            self._rebalancer.sessions.renew(group, group.members[request.member_id], now)
        return check.error

    def leave(self, request: LeaveRequest, now: float) -> LeaveGroupResult:
        """Handle LeaveGroup. Each named member gets its own result."""
        error = self._check_group(request.group_id)
        if error is not ErrorCode.NONE:
            return LeaveGroupResult(error)
        group = self._groups.get(request.group_id)
        if group is None:
            return leave_processor.result_without_group(request)
        result = self._leave_processor.leave(group, request, now)
        self._replies.deliver()
        return result

    def expire_member(self, group_id: str, member_id: str, now: float) -> ErrorCode:
        """End a member's session now, as if its timeout had passed. Return UNKNOWN_MEMBER_ID for an unknown member."""
        group = self._groups.get(group_id)
        if group is None or not self._rebalancer.expire(group, member_id, now):
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._replies.deliver()
        return ErrorCode.NONE

    # --- offsets -----------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, now: float) -> OffsetCommitResult:
        """Handle OffsetCommit. A simple consumer's first commit creates its group."""
        error = self._serves(request.group_id)
        group = self._groups.get(request.group_id)
        if error is ErrorCode.NONE:
            error = offset_rules.check_commit(group, request) if group else offset_rules.check_missing_group(request)
        if error is not ErrorCode.NONE:
            return OffsetCommitResult(dict.fromkeys(request.offsets, error))
        if group is None:
            group = self._create(request.group_id, now)
        return self._offset_store.commit(group, request, now)

    def fetch_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> OffsetFetchResult:
        """Handle OffsetFetch for `partitions` (None: all with a commit). A group that does not exist has no commits."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return OffsetFetchResult(error)
        group = self._groups.get(group_id)
        return OffsetFetchResult(error, offset_rules.select(group.offsets if group else {}, partitions))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteResult:
        """Handle OffsetDelete. A topic that a member subscribes to is refused with GROUP_SUBSCRIBED_TO_TOPIC."""
        error = self._check_group(group_id)
        group = self._groups.get(group_id)
        if error is not ErrorCode.NONE or group is None:
            return OffsetDeleteResult(error or ErrorCode.GROUP_ID_NOT_FOUND)
        return self._offset_store.delete(group, partitions)

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Delete all commits for the partitions of a deleted topic."""
        for group in self._groups.values():
            self._offset_store.forget(group, partitions)

    def forget_expired(self, now: float) -> None:
        """Delete expired commits, and empty groups without commits."""
        for group in list(self._groups.values()):
            self._offset_store.expire(group)
            if group.state is GroupState.EMPTY and not group.offsets:
                self._delete(group, now)

    # --- administration ----------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription:
        """Handle DescribeGroups for one group."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return GroupDescription(error, group_id)
        group = self._groups.get(group_id)
        return views.description(group) if group else GroupDescription(error, group_id, GroupState.DEAD)

    def list_groups(self, states: Collection[GroupState] = ()) -> list[GroupListing]:
        """Handle ListGroups: return all groups of this coordinator, or those in one of `states`."""
        return [views.listing(group) for group in self._groups.values() if not states or group.state in states]

    def delete_group(self, group_id: str, now: float) -> ErrorCode:
        """Handle DeleteGroups for one group. Return NON_EMPTY_GROUP while it has members."""
        error = self._serves(group_id)
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._offset_store.forget(group, list(group.offsets))
        self._delete(group, now)
        return ErrorCode.NONE

    def _delete(self, group: ClassicGroup, now: float) -> None:
        """Delete an Empty group without commits."""
        self._journal.store_group(group.group_id, None)
        self._end(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    def _end(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        del self._groups[group.group_id]
        self._rebalancer.end(group, error, now)
        self._retention.groups_changed(now)
        self._replies.deliver()

    # --- moving to another coordinator -------------------------------------------------------------------------

    def unload(self, group_id: str, now: float) -> GroupImage | None:
        """Unload a group for another coordinator, and answer NOT_COORDINATOR to all held requests.

        Returns:
            The group as the log holds it; None if there is no such group.
        """
        group = self._groups.get(group_id)
        if group is None:
            return None
        self._end(group, ErrorCode.NOT_COORDINATOR, now)
        return GroupImage(group_id, group.stored, group.offsets)

    def load(self, image: GroupImage, now: float) -> None:
        """Load a group. Its members have one session timeout from now to send a heartbeat.

        A group with more members than allowed starts a rebalance, which refuses the last ones to rejoin.

        Raises:
            ValueError: The group is already loaded.
        """
        if image.group_id in self._groups:
            raise ValueError(f"group {image.group_id!r} is already loaded; unload it first")
        group = self._groups[image.group_id] = ClassicGroup.from_image(image)
        for member in group.members.values():
            self._rebalancer.sessions.renew(group, member, now)
        if len(group.members) > self._config.max_size:
            reason = f"loaded with {len(group.members)} members, at most {self._config.max_size} are allowed"
            self._rebalancer.rebalance(group, reason, now)
        self._retention.groups_changed(now)

    # --- time --------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return the latest time of the next `handle_timer` call; None while nothing waits."""
        deadlines = (purgatory.next_deadline() for purgatory in self._purgatories)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Expire everything that is due, in the order of the deadlines."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            for purgatory in self._purgatories:
                if purgatory.next_deadline() == deadline:
                    purgatory.expire_next(now)
        self._replies.deliver()

    # --- helpers -----------------------------------------------------------------------------------------------

    def _check_group(self, group_id: str) -> ErrorCode:
        # Not called for OffsetCommit, OffsetFetch, DescribeGroups and DeleteGroups: they allow the empty group id, for
        # clients that are older than this check.
        return self._serves(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def _create(self, group_id: str, now: float) -> ClassicGroup:
        group = self._groups[group_id] = ClassicGroup(group_id, self._rebalancer.wall_clock())
        self._retention.groups_changed(now)
        return group
