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

Left to others: bytes on the wire (`apis`), the offsets log (`Journal`), timers and connections (`server`), the rules
of a round (`groups.rebalance`), of a commit (`groups.offsets`), of a heartbeat (`groups.heartbeats`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable

from sarameya.embedded.groups.config import DEFAULTS, CoordinatorConfig
from sarameya.embedded.groups.messages import (
    NO_JOURNAL,
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
    OffsetFetchAnswer,
    Reply,
    SyncAnswer,
    SyncRequest,
)
from sarameya.embedded.groups.states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition

Serves = Callable[[str], ErrorCode]


def serves_all(group_id: str) -> ErrorCode:
    """The `serves` of a coordinator without peers."""
    return ErrorCode.NONE


def partition_for(group_id: str, count: int = 50) -> int:
    """The partition of `__consumer_offsets` (with `count` partitions) that keeps this group; its leader coordinates."""
    raise NotImplementedError


class GroupCoordinator:
    def __init__(
        self,
        config: CoordinatorConfig = DEFAULTS,
        *,
        serves: Serves = serves_all,
        journal: Journal = NO_JOURNAL,
        rng: random.Random | None = None,
    ) -> None:
        raise NotImplementedError

    def join(self, request: JoinRequest, now: float, reply: Reply[JoinAnswer]) -> None:
        raise NotImplementedError

    def sync(self, request: SyncRequest, now: float, reply: Reply[SyncAnswer]) -> None:
        raise NotImplementedError

    def heartbeat(self, request: HeartbeatRequest, now: float) -> ErrorCode:
        raise NotImplementedError

    def leave(self, request: LeaveRequest, now: float) -> LeaveAnswer:
        raise NotImplementedError

    def commit(self, request: CommitRequest, now: float) -> CommitAnswer:
        raise NotImplementedError

    def fetch_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> OffsetFetchAnswer:
        """`partitions` None: all that have a commit."""
        raise NotImplementedError

    def describe(self, group_id: str) -> GroupDescription:
        raise NotImplementedError

    def list_groups(self, states: Collection[GroupState] = ()) -> list[GroupListing]:
        """All groups served here, or those in one of `states`."""
        raise NotImplementedError

    def delete_group(self, group_id: str, now: float) -> ErrorCode:
        raise NotImplementedError

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> DeleteOffsetsAnswer:
        raise NotImplementedError

    def unload(self, group_id: str, now: float) -> GroupImage | None:
        """Give the group up: everything that waits is answered NOT_COORDINATOR. None: there is no such group."""
        raise NotImplementedError

    def load(self, image: GroupImage, now: float) -> None:
        """Take a group over; its members have one session timeout from now to be heard of."""
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        raise NotImplementedError

    def handle_timer(self, now: float) -> None:
        raise NotImplementedError
