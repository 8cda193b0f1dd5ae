"""OffsetCommit, OffsetFetch and OffsetDelete: members that may commit, and stored offsets."""

from __future__ import annotations

import struct

import pytest

from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import CommitRequest
from sarameya.embedded.groups.model.stored import StoredOffset
from sarameya.embedded.groups.model.subscriptions import subscribed_topics
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition
from tests.embedded.coordinator_kit import GROUP, SESSION, T0, WALL_TIME, Kit, config, protocols

T1 = TopicPartition("t", 1)


def subscription(*topics: str, version: int = 1) -> bytes:
    """Return a consumer's subscription: version, topics, user data and the fields of later versions."""
    names = b"".join(struct.pack(">h", len(topic)) + topic for topic in map(str.encode, topics))
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1) + b"more"


def kit_in(state: GroupState) -> tuple[Kit, str, int]:
    """Return a group in that state, one of its members, and the generation that the member knows."""
    kit = Kit()
    if state is GroupState.EMPTY:
        return kit, "", -1
    first, second = kit.stable(2)
    if state is not GroupState.STABLE:
        kit.join(first)
    if state is GroupState.COMPLETING_REBALANCE:
        kit.join(second)
    assert kit.state is state
    return kit, second, kit.group.generation


# --- permission to commit ------------------------------------------------------------------------------------------

OK, UNKNOWN, ILLEGAL = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
P, C, S = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE


@pytest.mark.parametrize(
    ("state", "committer", "generation", "error"),
    [
        (S, "member", 0, OK),
        (P, "member", 0, OK),  # messages handled before the round may still be committed
        (C, "member", 0, REBALANCING),
        (S, "member", -1, ILLEGAL),
        (S, "member", +1, ILLEGAL),
        (P, "member", -1, ILLEGAL),
        (C, "member", -1, ILLEGAL),
        (S, "unknown", 0, UNKNOWN),
        (C, "unknown", 0, UNKNOWN),
        (S, "simple", 0, UNKNOWN),  # no member id and no generation: only an empty group accepts it
        (P, "simple", 0, UNKNOWN),
    ],
)
def test_commit_is_fenced_by_member_generation_and_state(
    state: GroupState, committer: str, generation: int, error: ErrorCode
) -> None:
    kit, member_id, current = kit_in(state)
    by, of = {"member": (member_id, current + generation), "unknown": ("ghost", current), "simple": ("", -1)}[committer]
    assert kit.commit(by, of) is error
    assert kit.committed() == ({T0: CommittedOffset(5)} if error is OK else {})
    assert len(kit.offsets_log) == (error is OK)


def test_simple_commit_creates_a_group_that_only_commits() -> None:
    kit = Kit()
    assert kit.commit() is OK
    assert kit.committed() == {T0: CommittedOffset(5)}
    description = kit.coordinator.describe(GROUP)
    assert (description.state, description.protocol_type) == (GroupState.EMPTY, "")


def test_simple_commit_to_an_empty_group_is_accepted() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    kit.leave(member_id)
    assert kit.commit() is OK


@pytest.mark.parametrize(
    ("knows", "error"), [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)]
)
def test_member_commit_to_a_missing_group_is_refused(knows: bool, error: ErrorCode) -> None:
    kit = Kit()
    assert kit.commit("m", 1, knows_group_id_not_found=knows) is error
    assert not kit.exists


def test_commit_of_an_old_generation_is_fenced() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    old_generation = kit.group.generation
    kit.join(first)
    kit.join(second)
    kit.settle([first, second])
    assert kit.commit(first, old_generation, offset=99) is ErrorCode.ILLEGAL_GENERATION
    assert kit.commit(first, old_generation + 1, offset=7) is OK
    assert kit.committed()[T0].offset == 7


def test_commit_of_an_expired_member_is_refused() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.advance(SESSION / 2)
    kit.heartbeat(first)
    kit.advance(SESSION / 2)
    kit.join(first)
    assert kit.commit(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", [S, P])
def test_commit_keeps_its_member_alive(state: GroupState) -> None:
    kit, member_id, generation = kit_in(state)
    kit.advance(SESSION - 1)
    kit.commit(member_id, generation)
    kit.advance(SESSION - 1)
    assert member_id in kit.member_ids
    kit.advance(1)
    assert member_id not in kit.member_ids


# --- stored offsets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "error"), [(4096, OK), (4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
def test_commit_metadata_has_a_limit(length: int, error: ErrorCode) -> None:
    assert Kit().commit(metadata="é" * length) is error


def test_too_large_metadata_refuses_only_its_partition() -> None:
    kit = Kit()
    offsets = {T0: CommittedOffset(1, "x" * 5000), T1: CommittedOffset(2, "fine", 4)}
    answer = kit.coordinator.commit(CommitRequest(GROUP, offsets), 0)
    assert dict(answer.errors) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: OK}
    assert kit.committed() == {T1: CommittedOffset(2, "fine", 4)}
    assert kit.offsets_log == [{T1: StoredOffset(CommittedOffset(2, "fine", 4), WALL_TIME)}]


def test_commit_may_move_an_offset_back() -> None:
    kit = Kit()
    kit.commit(offset=9)
    kit.commit(offset=3)
    assert kit.committed()[T0].offset == 3


def test_empty_commit_writes_nothing() -> None:
    kit = Kit()
    assert kit.coordinator.commit(CommitRequest(GROUP, {}), 0).errors == {}
    assert kit.offsets_log == []


def test_fetch_without_a_commit_returns_minus_one() -> None:
    kit = Kit()
    kit.commit()
    answer = kit.coordinator.fetch_offsets(GROUP, [T1, T0])
    assert list(answer.offsets.items()) == [(T1, CommittedOffset(-1, "", -1)), (T0, CommittedOffset(5))]


@pytest.mark.parametrize(("partitions", "offsets"), [(None, {}), ([T0], {T0: CommittedOffset(-1)})])
def test_fetch_for_a_missing_group_is_empty_and_creates_none(
    partitions: list[TopicPartition] | None, offsets: dict[TopicPartition, CommittedOffset]
) -> None:
    kit = Kit()
    answer = kit.coordinator.fetch_offsets(GROUP, partitions)
    assert (answer.error, dict(answer.offsets)) == (OK, offsets)
    assert not kit.exists


# --- deletion ------------------------------------------------------------------------------------------------------


def test_delete_of_unused_offsets_writes_tombstones() -> None:
    kit = Kit()
    kit.commit()
    answer = kit.coordinator.delete_offsets(GROUP, [T0, T1])
    assert (answer.error, dict(answer.errors)) == (OK, {T0: OK, T1: OK})
    assert kit.committed() == {}
    assert kit.offsets_log[-1] == {T0: None}


def test_delete_of_offsets_of_a_subscribed_topic_is_refused() -> None:
    kit = Kit()
    u0 = TopicPartition("u", 0)
    kit.coordinator.commit(CommitRequest(GROUP, {T0: CommittedOffset(5), u0: CommittedOffset(6)}), 0)
    kit.stable(2, protocols=protocols("range", metadata=subscription("t")))
    answer = kit.coordinator.delete_offsets(GROUP, [T0, u0])
    assert dict(answer.errors) == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, u0: OK}
    assert kit.committed() == {T0: CommittedOffset(5)}


def test_offset_delete_uses_the_last_generations_subscriptions() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1, protocols=protocols("range", metadata=subscription("t")))
    kit.commit(member_id, 1)
    kit.leave(member_id)
    kit.commit()
    kit.new_id()
    kit.coordinator._rebalancer.config = config(initial_rebalance_delay=3.0)
    kit.join_new(protocols=protocols("range", metadata=subscription("t")))
    assert kit.state is GroupState.PREPARING_REBALANCE
    assert dict(kit.coordinator.delete_offsets(GROUP, [T0]).errors) == {T0: OK}, (
        "the last generation had no members, and so no subscriptions"
    )


def test_offset_delete_with_unreadable_subscription_is_refused() -> None:
    kit = Kit()
    kit.commit()
    kit.stable(1, protocols=protocols("range", metadata=b"?"))
    answer = kit.coordinator.delete_offsets(GROUP, [T0])
    assert dict(answer.errors) == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_delete_of_offsets_of_another_group_type_is_refused() -> None:
    kit = Kit()
    kit.stable(1, protocol_type="connect")
    assert kit.coordinator.delete_offsets(GROUP, [T0]).error is ErrorCode.NON_EMPTY_GROUP


def test_delete_of_offsets_of_a_missing_group_is_refused() -> None:
    assert Kit().coordinator.delete_offsets(GROUP, [T0]).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert Kit().coordinator.delete_offsets("", [T0]).error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription("t", "été"), {"t", "été"}),
        (subscription("t", version=3), {"t"}),
        (subscription(), set()),
        (b"", None),
        (b"\x00\x01\x00\x00", None),
        (struct.pack(">hih", 0, 1, 5) + b"abcd", None),
        (struct.pack(">hih", 0, 1, -1), None),
        (struct.pack(">hih", 0, 1, 1) + b"\xff", None),
        (struct.pack(">hi", 0, 2**31 - 1), None),
    ],
)
def test_subscribed_topics_are_decoded_from_every_version(metadata: bytes, topics: set[str] | None) -> None:
    assert subscribed_topics(metadata) == topics
