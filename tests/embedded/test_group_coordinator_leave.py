"""LeaveGroup: one member or many, dynamic, static or pending, in each state."""

from __future__ import annotations

import logging

import pytest

from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import LeaveGroupResult, LeaveRequest, LeavingMember
from sarameya.error_codes import ErrorCode
from tests.embedded.coordinator_kit import GROUP, Kit, protocols


def test_leave_of_the_only_member_empties_the_group_at_once() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    assert kit.leave(member_id) == LeaveGroupResult(ErrorCode.NONE, ((LeavingMember(member_id), ErrorCode.NONE),))
    assert (kit.state, kit.group.generation) == (GroupState.EMPTY, 2)
    assert kit.coordinator.next_deadline() is None


def test_leave_in_a_stable_group_starts_a_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.leave(second)
    assert kit.state is GroupState.PREPARING_REBALANCE
    assert kit.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.join(first).answer.generation == 3


def test_leave_of_the_leader_elects_the_first_joined_member() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    third = kit.new_id()
    joins = {member_id: kit.join(member_id) for member_id in (third, second)}
    kit.leave(first)
    assert {join.answer.leader for join in joins.values()} == {second}
    assert [member.member_id for member in joins[second].answer.members] == [second, third]


def test_leave_in_completing_rebalance_restarts_the_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    kit.leave(first)
    assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.join(second).answer.leader == second


def test_leave_in_completing_rebalance_clears_assignments() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    assert {member.assignment for member in kit.coordinator.describe(GROUP).members} == {
        first.encode(),
        second.encode(),
    }
    kit.leave(first)
    assert [member.assignment for member in kit.coordinator.describe(GROUP).members] == [b""]


def test_leave_logs_the_members_and_reasons(caplog: pytest.LogCaptureFixture) -> None:
    kit = Kit()
    first, second = kit.stable(2)
    with caplog.at_level(logging.INFO):
        kit.leave(LeavingMember(first, reason="it is closed"), LeavingMember("ghost"), LeavingMember(second))
    assert f"left: {first} (it is closed), {second} (no reason given)" in caplog.text


def test_leave_of_the_last_awaited_member_ends_the_join_phase() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    waiting = kit.join(first)
    kit.leave(second)
    assert waiting.answer.generation == 3


def test_leave_of_a_member_answers_its_held_join() -> None:
    kit = Kit()
    first, _second = kit.stable(2)
    waiting = kit.join(first)
    kit.leave(first)
    assert waiting.answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_of_a_member_answers_its_held_sync() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    kit.leave(second)
    assert waiting.answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_of_several_members_starts_one_rebalance() -> None:
    kit = Kit()
    first, second, third = kit.stable(3)
    answer = kit.leave(first, "ghost", second)
    assert [error for _, error in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert kit.join(third).answer.generation == 4


def test_leave_of_an_unknown_member_changes_nothing() -> None:
    kit = Kit()
    kit.stable(2)
    answer = kit.leave("ghost")
    assert (answer.error, answer.single_error) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    assert kit.state is GroupState.STABLE


def test_leave_of_a_missing_group_is_an_unknown_member() -> None:
    assert Kit().leave("ghost").single_error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_to_a_group_without_an_id_is_refused() -> None:
    answer = Kit().coordinator.leave(LeaveRequest("", (LeavingMember("m"),)), 0)
    assert (answer.error, answer.single_error) == (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID)


@pytest.mark.parametrize(
    ("before", "after"), [(GroupState.EMPTY, GroupState.EMPTY), (GroupState.STABLE, GroupState.PREPARING_REBALANCE)]
)
def test_leave_of_a_pending_member_starts_a_rebalance(before: GroupState, after: GroupState) -> None:
    kit = Kit()
    if before is GroupState.STABLE:
        kit.stable(1)
    pending = kit.new_id()
    assert kit.leave(pending).single_error is ErrorCode.NONE
    assert kit.state is after
    assert kit.join(pending).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_of_the_last_pending_member_ends_the_join_phase() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    pending = kit.new_id()
    waiting = kit.join(first)
    kit.leave(pending)
    assert waiting.answer.generation == 2


@pytest.mark.parametrize(
    ("leaving", "error"),
    [
        (LeavingMember("", "i1"), ErrorCode.NONE),  # an administrator, by instance id
        (LeavingMember("", "unheard-of"), ErrorCode.UNKNOWN_MEMBER_ID),
        (LeavingMember("", None), ErrorCode.UNKNOWN_MEMBER_ID),
        (LeavingMember("someone else's", "i1"), ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_leave_of_a_static_member_uses_its_instance_id(leaving: LeavingMember, error: ErrorCode) -> None:
    kit = Kit()
    member_id = kit.join(group_instance_id="i1").answer.member_id
    kit.settle([member_id])
    assert kit.leave(leaving).single_error is error
    assert kit.member_ids == ([] if error is ErrorCode.NONE else [member_id])


def test_leave_of_a_static_member_by_both_ids_removes_it() -> None:
    kit = Kit()
    member_id = kit.join(group_instance_id="i1").answer.member_id
    kit.settle([member_id])
    assert kit.leave(LeavingMember(member_id, "i1")).single_error is ErrorCode.NONE
    assert kit.group.static_members == {}


def test_empty_group_accepts_another_protocol_type() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    kit.leave(member_id)
    _, reply = kit.join_new(protocol_type="connect", protocols=protocols("v1"))
    assert (reply.answer.protocol_type, reply.answer.generation) == ("connect", 3)
    assert kit.coordinator.describe(GROUP).protocol_type == "connect"
