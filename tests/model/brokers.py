"""Two brokers, each with the real coordinator machine. One of them coordinates the group; both may fail."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.group_coordinator import GroupCoordinator
from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.messages import (
    CommitRequest,
    HeartbeatRequest,
    JoinGroupResult,
    JoinRequest,
    LeaveGroupResult,
    LeaveRequest,
    OffsetCommitResult,
    OffsetFetchResult,
    SyncGroupResult,
    SyncRequest,
)
from sarameya.embedded.groups.model.stored import GroupImage
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.assignors.base import TopicLayout
from tests.model.network import Request
from tests.model.scheduler import Scheduler

GROUP = "orders"

ALIVE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""Response codes of a heartbeat that keeps its member alive."""

Reply = Callable[[Any], None]
OnCommit = Callable[[CommitRequest, ClassicGroup], None]


@attrs.frozen(slots=True)
class FindRequest:
    """FindCoordinator; any broker responds to it."""


@attrs.frozen(slots=True)
class FindAnswer:
    code: int
    node_id: int = -1


@attrs.frozen(slots=True)
class FetchRequest:
    """OffsetFetch of these partitions."""

    partitions: tuple[TopicPartition, ...]


Body = FindRequest | JoinRequest | SyncRequest | HeartbeatRequest | LeaveRequest | CommitRequest | FetchRequest


@attrs.frozen(slots=True)
class FakedCode:
    """A faked response: the next request of this kind is answered with `code`.

    The coordinator handles the request first if `carried_out`, and never otherwise.
    """

    kind: type
    code: int
    carried_out: bool


@attrs.define(slots=True)
class Node:
    id: int
    coordinator: GroupCoordinator
    is_up: bool = True


class Brokers:
    """The brokers of one group. `coordinator_id` is the node that coordinates it; None while no node does."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: random.Random,
        config: CoordinatorConfig,
        topics: dict[str, int],
        on_commit: OnCommit,
    ) -> None:
        self.topics = topics
        self.coordinator_id: int | None = 0
        self.moved_at = -math.inf
        self.faked: deque[FakedCode] = deque()
        self.fatal: set[int] = set()
        """The codes of faked responses. A client may fail with a permanent one."""
        self.heartbeats: dict[str, float] = {}
        """Member id -> the time of the last heartbeat that the coordinator accepted."""
        self._scheduler = scheduler
        self._on_commit = on_commit
        self._is_loading = False
        self._image: GroupImage | None = None
        self.nodes = [
            Node(
                id,
                GroupCoordinator(config, serves=lambda group, id=id: self._serves(id), rng=rng),  # type: ignore[misc]
            )
            for id in range(2)
        ]
        for node in self.nodes:
            self._watch_failures(node.coordinator)

    # -- state ---------------------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup | None:
        """The group in its coordinator's memory; None while there is no group or no coordinator."""
        if self.coordinator_id is None or self._is_loading:
            return None
        return self.nodes[self.coordinator_id].coordinator._groups.get(GROUP)

    def layouts(self) -> dict[str, TopicLayout]:
        return {topic: TopicLayout(count) for topic, count in self.topics.items()}

    def partitions(self, topics: set[str]) -> set[TopicPartition]:
        return {TopicPartition(topic, n) for topic in topics for n in range(self.topics[topic])}

    def _watch_failures(self, coordinator: GroupCoordinator) -> None:
        """Check that the coordinator never removes a member whose heartbeats arrive."""
        sessions = coordinator._rebalancer.sessions
        failed = sessions._member_failed

        def member_failed(group: ClassicGroup, member: ClassicGroupMember, now: float) -> None:
            silent = now - self.heartbeats.get(member.member_id, -math.inf)
            assert silent > member.session_timeout - 0.001, f"{member.member_id} is removed in spite of its heartbeats"
            failed(group, member, now)

        sessions._member_failed = member_failed

    # -- requests ------------------------------------------------------------------------------------

    def serve(self, node_id: int, request: Request, reply: Reply) -> None:
        """Handle a request that has arrived. A node that is down does not respond."""
        node, body = self.nodes[node_id], request.body
        if not node.is_up:
            return
        faked = next((f for f in self.faked if isinstance(body, f.kind)), None)
        if faked is None:
            self._answer(node, body, reply)
            return
        self.faked.remove(faked)
        self.fatal.add(faked.code)
        refusal = _refusal(body, faked.code)
        if faked.carried_out:
            self._answer(node, body, lambda _: reply(refusal))
        else:
            reply(refusal)

    def _answer(self, node: Node, body: Body, reply: Reply) -> None:
        coordinator, now = node.coordinator, self._scheduler.now
        match body:
            case FindRequest():
                reply(
                    FindAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    if self.coordinator_id is None
                    else FindAnswer(ErrorCode.NONE, self.coordinator_id)
                )
            case JoinRequest():
                coordinator.join(body, now, reply)
            case SyncRequest():
                coordinator.sync(body, now, reply)
            case HeartbeatRequest():
                code = coordinator.heartbeat(body, now)
                if self._serves(node.id) is ErrorCode.NONE and code in ALIVE:
                    self.heartbeats[body.member_id] = now
                reply(code)
            case LeaveRequest():
                reply(coordinator.leave(body, now))
            case CommitRequest():
                before = coordinator.fetch_offsets(GROUP, body.offsets)
                answer = coordinator.commit(body, now)
                if not any(answer.errors.values()):
                    assert all(body.offsets[tp].offset >= before.offsets[tp].offset for tp in body.offsets), (
                        f"{body.member_id} commits {body.offsets}, before the group's committed {before.offsets}"
                    )
                    self._on_commit(body, coordinator._groups[GROUP])
                reply(answer)
            case FetchRequest(partitions=partitions):
                reply(coordinator.fetch_offsets(GROUP, partitions))

    def _serves(self, node_id: int) -> ErrorCode:
        if node_id != self.coordinator_id:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._is_loading else ErrorCode.NONE

    # -- faults --------------------------------------------------------------------------------------

    def move(self, gap: float, loading: float) -> None:
        """Move the group to the other node.

        No node coordinates it for `gap` seconds; then the other node loads it for `loading` seconds.
        """
        target = 1 - self.coordinator_id if self.coordinator_id is not None else 0
        self._unload_group()
        self._scheduler.after(gap, lambda: self._take_over(target, loading))

    def stop(self, node_id: int, seconds: float) -> None:
        """Kill a node, and start it again after `seconds`. If it coordinated the group, the other node takes over."""
        node = self.nodes[node_id]
        node.is_up = False
        if self.coordinator_id == node_id:
            self.move(gap=1.0, loading=0.5)

        def start() -> None:
            node.is_up = True

        self._scheduler.after(seconds, start)

    def _unload_group(self) -> None:
        self.moved_at = self._scheduler.now
        if self.coordinator_id is not None and not self._is_loading:
            node, self.coordinator_id = self.nodes[self.coordinator_id], None
            self._image = node.coordinator.unload(GROUP, self._scheduler.now)
        self.coordinator_id = None

    def _take_over(self, node_id: int, loading: float) -> None:
        if self.coordinator_id is not None:
            return  # an earlier move has ended meanwhile
        if not self.nodes[node_id].is_up:
            self._scheduler.after(0.5, lambda: self._take_over(1 - node_id, loading))
            return
        self.coordinator_id, self._is_loading = node_id, True
        self._scheduler.after(loading, lambda: self._loaded(node_id))

    def _loaded(self, node_id: int) -> None:
        if self.coordinator_id != node_id or not self._is_loading:
            return  # the group has moved again while it was loaded
        self._is_loading = False
        if self._image is not None:
            image, self._image = self._image, None
            self.nodes[node_id].coordinator.load(image, self._scheduler.now)

    # -- time ----------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        deadlines = (node.coordinator.next_deadline() for node in self.nodes)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def handle_timer(self) -> None:
        for node in self.nodes:
            node.coordinator.handle_timer(self._scheduler.now)


def _refusal(body: Body, code: int) -> Any:
    error: Any = code  # may be a code that ErrorCode does not have
    match body:
        case FindRequest():
            return FindAnswer(code)
        case JoinRequest():
            # A coordinator that has moved names the member id it was about to give; the new one has never stored it.
            return JoinGroupResult(error, body.member_id or "never-stored")
        case SyncRequest():
            return SyncGroupResult(error)
        case HeartbeatRequest():
            return error
        case LeaveRequest():
            return LeaveGroupResult(error)
        case CommitRequest():
            return OffsetCommitResult(dict.fromkeys(body.offsets, error))
        case FetchRequest():
            return OffsetFetchResult(error)
