"""A kit for tests of the group coordinator: held results, virtual time, and short methods for requests."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.group_coordinator import GroupCoordinator, Serves, serves_all
from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import (
    CommitRequest,
    HeartbeatRequest,
    JoinGroupResult,
    JoinRequest,
    LeaveGroupResult,
    LeaveRequest,
    LeavingMember,
    Reply,
    SupportedProtocol,
    SyncGroupResult,
    SyncRequest,
)
from sarameya.embedded.groups.model.stored import GroupRecord, StoredOffset
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition

GROUP = "orders"
SESSION = 10.0
REBALANCE = 60.0
T0 = TopicPartition("t", 0)

A = TypeVar("A")


class HeldReply(Generic[A]):
    """A reply that checks that it is called at most once."""

    def __init__(self) -> None:
        self._answers: list[A] = []

    def __call__(self, answer: A) -> None:
        assert not self._answers, f"answered twice: {self._answers[0]}, then {answer}"
        self._answers.append(answer)

    @property
    def is_answered(self) -> bool:
        return bool(self._answers)

    @property
    def answer(self) -> A:
        assert self._answers, "not answered yet"
        return self._answers[0]


def protocols(*names: str, metadata: bytes = b"") -> tuple[SupportedProtocol, ...]:
    return tuple(SupportedProtocol(name, metadata or name.encode()) for name in names)


def join_request(member_id: str = "", **fields: Any) -> JoinRequest:
    request: dict[str, Any] = {
        "group_id": GROUP,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
        "session_timeout": SESSION,
        "rebalance_timeout": REBALANCE,
        "member_id": member_id,
        "client_id": "client",
    }
    return JoinRequest(**(request | fields))


WALL_TIME = 1_700_000_000.0
"""The wall-clock time at which the kit's own clock is 0."""


def config(**fields: Any) -> CoordinatorConfig:
    """Return settings without expiry of offsets, for tests that check every deadline."""
    return CoordinatorConfig(**{"offsets_retention_check_interval": math.inf} | fields)


class Kit:
    """A coordinator with its own clock, and with a journal that records stored offsets and groups."""

    def __init__(
        self, settings: CoordinatorConfig | None = None, *, serves: Serves = serves_all, seed: int = 7
    ) -> None:
        self.now = 0.0
        self.offsets_log: list[Mapping[TopicPartition, StoredOffset | None]] = []
        self.groups_log: list[GroupRecord | None] = []
        self.coordinator = GroupCoordinator(
            settings or config(), serves=serves, journal=self, wall_clock=self.time_of_day, rng=random.Random(seed)
        )

    def time_of_day(self) -> float:
        return WALL_TIME + self.now

    # --- the journal -------------------------------------------------------------------------------------------

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, StoredOffset | None]) -> None:
        self.offsets_log.append(dict(offsets))

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        self.groups_log.append(record)

    # --- time --------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Advance the clock, stopping at each deadline as a driver does."""
        target = self.now + seconds
        while (deadline := self.coordinator.next_deadline()) is not None and deadline <= target:
            self.now = max(self.now, deadline)
            self.coordinator.handle_timer(self.now)
        self.now = target

    # --- requests ----------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", **fields: Any) -> HeldReply[JoinGroupResult]:
        reply: HeldReply[JoinGroupResult] = HeldReply()
        self.join_with(reply, member_id, **fields)
        return reply

    def join_with(self, reply: Reply[JoinGroupResult], member_id: str = "", **fields: Any) -> None:
        self.coordinator.join(join_request(member_id, **fields), self.now, reply)

    def new_id(self, **fields: Any) -> str:
        """Do the first half of a dynamic member's join. Return the member id for the second half."""
        answer = self.join(**fields).answer
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def join_new(self, **fields: Any) -> tuple[str, HeldReply[JoinGroupResult]]:
        """Do both halves of a join. Return the new member's id and its held join."""
        member_id = self.new_id(**fields)
        return member_id, self.join(member_id, **fields)

    def sync(
        self, member_id: str, assignments: Mapping[str, bytes] | None = None, **fields: Any
    ) -> HeldReply[SyncGroupResult]:
        generation = fields.pop("generation", self.group.generation if self.exists else 1)
        reply: HeldReply[SyncGroupResult] = HeldReply()
        group_id = fields.pop("group_id", GROUP)
        request = SyncRequest(group_id, generation, member_id, assignments=assignments or {}, **fields)
        self.coordinator.sync(request, self.now, reply)
        return reply

    def heartbeat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        if generation is None:
            generation = self.group.generation if self.exists else 1
        return self.coordinator.heartbeat(HeartbeatRequest(GROUP, generation, member_id, instance), self.now)

    def leave(self, *members: str | LeavingMember) -> LeaveGroupResult:
        leaving = tuple(m if isinstance(m, LeavingMember) else LeavingMember(m) for m in members)
        return self.coordinator.leave(LeaveRequest(GROUP, leaving), self.now)

    def commit(self, member_id: str = "", generation: int = -1, offset: int = 5, **fields: Any) -> ErrorCode:
        """Commit one offset for T0."""
        metadata = fields.pop("metadata", "")
        request = CommitRequest(GROUP, {T0: CommittedOffset(offset, metadata)}, generation, member_id, **fields)
        return self.coordinator.commit(request, self.now).errors[T0]

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        answer = self.coordinator.fetch_offsets(GROUP, None)
        assert answer.error is ErrorCode.NONE
        return dict(answer.offsets)

    # --- whole flows -------------------------------------------------------------------------------------------

    def stable(self, count: int, **fields: Any) -> list[str]:
        """Start a Stable group of `count` members. The first is the leader, and each is assigned its own id."""
        ids: list[str] = []
        for _ in range(count):
            newcomer, _reply = self.join_new(**fields)
            for member_id in ids:
                self.join(member_id, **fields)
            ids.append(newcomer)
        self.settle(ids)
        return ids

    def settle(self, ids: list[str]) -> None:
        """Send the syncs of all members in CompletingRebalance."""
        leader = self.group.leader
        for member_id in ids:
            self.sync(member_id, {m: m.encode() for m in ids} if member_id == leader else None)
        assert self.state is GroupState.STABLE

    # --- the coordinator's state -------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return GROUP in self.coordinator._groups

    @property
    def group(self) -> ClassicGroup:
        return self.coordinator._groups[GROUP]

    @property
    def state(self) -> GroupState | None:
        return self.coordinator.describe(GROUP).state

    @property
    def member_ids(self) -> list[str]:
        return [member.member_id for member in self.coordinator.describe(GROUP).members]
