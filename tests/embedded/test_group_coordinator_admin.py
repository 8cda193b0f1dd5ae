"""DescribeGroups, ListGroups and DeleteGroups, and groups that move between coordinators."""

from __future__ import annotations

import pytest

from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import (
    GroupDescription,
    GroupListing,
    JoinGroupResult,
    MemberDescription,
    SyncGroupResult,
)
from sarameya.embedded.groups.model.stored import GroupImage, StoredOffset
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset
from tests.embedded.coordinator_kit import GROUP, SESSION, T0, WALL_TIME, HeldReply, Kit, join_request, protocols

# --- describe, list ------------------------------------------------------------------------------------------------


def test_describe_of_a_stable_group_shows_assignments() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1, client_host="/127.0.0.1")
    assert kit.coordinator.describe(GROUP) == GroupDescription(
        ErrorCode.NONE,
        GROUP,
        GroupState.STABLE,
        "consumer",
        "range",
        1,
        member_id,
        (MemberDescription(member_id, None, "client", "/127.0.0.1", b"range", member_id.encode()),),
    )


def test_describe_during_a_rebalance_omits_subscriptions() -> None:
    kit = Kit()
    first, _ = kit.stable(2)
    kit.join(first)
    description = kit.coordinator.describe(GROUP)
    assert (description.state, description.protocol_name) == (GroupState.PREPARING_REBALANCE, "")
    assert [member.metadata for member in description.members] == [b"", b""]


def test_describe_of_a_missing_group_returns_dead() -> None:
    assert Kit().coordinator.describe(GROUP) == GroupDescription(ErrorCode.NONE, GROUP, GroupState.DEAD)


def test_list_shows_all_groups_or_those_in_a_state() -> None:
    kit = Kit()
    kit.stable(1)
    kit.join(group_id="waiting")
    assert kit.coordinator.list_groups() == [
        GroupListing(GROUP, "consumer", GroupState.STABLE),
        GroupListing("waiting", "", GroupState.EMPTY),
    ]
    assert [g.group_id for g in kit.coordinator.list_groups([GroupState.EMPTY])] == ["waiting"]


# --- delete --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_delete_of_a_group_with_members_is_refused(count: int) -> None:
    kit = Kit()
    kit.stable(count)
    assert kit.coordinator.delete_group(GROUP, kit.now) is ErrorCode.NON_EMPTY_GROUP


def test_delete_of_an_empty_group_writes_tombstones() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    kit.commit(member_id, 1)
    kit.leave(member_id)
    assert kit.coordinator.delete_group(GROUP, kit.now) is ErrorCode.NONE
    assert kit.coordinator.describe(GROUP).state is GroupState.DEAD
    assert kit.committed() == {}
    assert (kit.offsets_log[-1], kit.groups_log[-1]) == ({T0: None}, None)


def test_delete_of_a_group_forgets_pending_member_ids() -> None:
    kit = Kit()
    pending = kit.new_id()
    assert kit.coordinator.delete_group(GROUP, kit.now) is ErrorCode.NONE
    assert kit.coordinator.next_deadline() is None
    assert kit.join(pending).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_delete_of_a_missing_group_is_refused() -> None:
    assert Kit().coordinator.delete_group(GROUP, 0) is ErrorCode.GROUP_ID_NOT_FOUND
    assert Kit().coordinator.delete_group("", 0) is ErrorCode.GROUP_ID_NOT_FOUND  # simple consumers may have that id


# --- groups of other coordinators ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE],
)
def test_requests_for_a_group_not_served_get_that_code(code: ErrorCode) -> None:
    kit = Kit(serves=lambda group_id: code)
    assert kit.join().answer == JoinGroupResult(code)
    assert kit.sync("m").answer == SyncGroupResult(code)
    assert kit.leave("m").error is code
    assert kit.commit() is code
    assert kit.coordinator.fetch_offsets(GROUP, None).error is code
    assert kit.coordinator.describe(GROUP) == GroupDescription(code, GROUP)
    assert kit.coordinator.delete_group(GROUP, 0) is code
    assert kit.coordinator.delete_offsets(GROUP, [T0]).error is code
    assert not kit.exists


def test_serves_is_called_with_the_group_id() -> None:
    kit = Kit(serves=lambda group_id: ErrorCode.NONE if group_id == GROUP else ErrorCode.NOT_COORDINATOR)
    assert kit.join().answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert kit.join(group_id="other").answer.error is ErrorCode.NOT_COORDINATOR


# --- moves ---------------------------------------------------------------------------------------------------------


def move(source: Kit) -> Kit:
    """Move the group to a coordinator on another broker with its own clock."""
    image = source.coordinator.unload(GROUP, source.now)
    assert image is not None
    target = Kit(seed=8)
    target.now = 5000.0
    target.coordinator.load(image, target.now)
    return target


def test_members_and_commits_survive_a_move() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.commit(second, 2)
    moved = move(kit)
    assert (moved.state, moved.member_ids) == (GroupState.STABLE, [first, second])
    assert moved.heartbeat(first) is moved.heartbeat(second) is ErrorCode.NONE
    assert moved.sync(second).answer.assignment == second.encode()
    assert moved.committed() == {T0: CommittedOffset(5)}
    assert moved.commit(first, 2) is ErrorCode.NONE


def test_silent_members_expire_one_session_after_a_move() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.advance(SESSION - 1)
    moved = move(kit)
    moved.advance(SESSION - 1)
    assert moved.member_ids == [first, second]
    moved.heartbeat(first)
    moved.advance(1)
    assert moved.member_ids == [first]


def test_old_coordinator_forgets_a_moved_group() -> None:
    kit = Kit()
    kit.stable(2)
    kit.new_id()
    move(kit)
    assert kit.coordinator.next_deadline() is None
    assert kit.coordinator.list_groups() == []
    assert kit.coordinator.unload(GROUP, kit.now) is None


def test_held_joins_get_not_coordinator_at_a_move() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    joins = [kit.join(first), kit.join_new()[1]]
    moved = move(kit)
    assert [reply.answer.error for reply in joins] == [ErrorCode.NOT_COORDINATOR] * 2
    # The log does not have the round: the last generation still holds, and its members join again.
    assert (moved.state, moved.member_ids) == (GroupState.STABLE, [first, second])
    again = moved.join(first)
    moved.join(second)
    assert again.answer.generation == 3


def test_held_syncs_get_not_coordinator_at_a_move() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    moved = move(kit)
    assert waiting.answer.error is ErrorCode.NOT_COORDINATOR
    assert moved.heartbeat(first, 3) is ErrorCode.ILLEGAL_GENERATION  # 3 was never assigned
    assert moved.heartbeat(first, 2) is ErrorCode.NONE


def test_member_absent_after_a_move_expires_with_its_session() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.leave(second)
    moved = move(kit)
    assert moved.member_ids == [first, second]
    moved.advance(5)
    moved.heartbeat(first)
    moved.advance(5)
    assert moved.member_ids == [first]


def test_static_members_and_their_fencing_survive_a_move() -> None:
    kit = Kit()
    old = kit.join(group_instance_id="i1").answer.member_id
    kit.settle([old])
    moved = move(kit)
    returned = moved.join(group_instance_id="i1").answer
    assert (returned.generation, returned.skip_assignment) == (1, True)
    assert moved.heartbeat(old, instance="i1") is ErrorCode.FENCED_INSTANCE_ID


def test_group_that_only_commits_moves_with_its_commits() -> None:
    kit = Kit()
    kit.commit()
    moved = move(kit)
    assert (moved.state, moved.committed()) == (GroupState.EMPTY, {T0: CommittedOffset(5)})
    assert moved.coordinator.next_deadline() is None


def test_group_moves_there_and_back() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    there = move(kit)
    image = there.coordinator.unload(GROUP, there.now)
    assert image is not None
    kit.coordinator.load(image, kit.now)
    assert kit.heartbeat(first) is kit.heartbeat(second) is ErrorCode.NONE


def test_image_of_a_group_is_its_stored_state() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    kit.commit(member_id, 1)
    kit.join(member_id, protocols=protocols("range", metadata=b"a round that is not over"))
    assert kit.coordinator.unload(GROUP, kit.now) == GroupImage(
        GROUP, kit.groups_log[-1], {T0: StoredOffset(CommittedOffset(5), WALL_TIME)}
    )


def test_load_of_a_loaded_group_raises_value_error() -> None:
    kit = Kit()
    kit.commit()
    with pytest.raises(ValueError, match="unload it first"):
        kit.coordinator.load(GroupImage(GROUP, None, {}), 0)


def test_reply_of_a_move_may_join_elsewhere_at_once() -> None:
    kit, target = Kit(), Kit(seed=8)
    first, _ = kit.stable(2)
    elsewhere: HeldReply[JoinGroupResult] = HeldReply()
    kit.coordinator.join(
        join_request(first), kit.now, lambda answer: target.coordinator.join(join_request(), 0, elsewhere)
    )
    kit.coordinator.unload(GROUP, kit.now)
    assert elsewhere.answer.error is ErrorCode.MEMBER_ID_REQUIRED
