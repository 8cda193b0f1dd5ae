"""Worked examples of the documents on the coordinator, each by name: the broker's half of a rebalance.

Document 002 follows a heartbeat through a coordinator of Kafka 0.9; 000 and 004 follow joins and syncs. The choice of a
coordinator is tested with the hash: `protocol/test_offsets_partition.py`.
"""

from __future__ import annotations

import pytest

from sarameya.embedded.groups.heartbeat_checks import STATE_FIRST
from sarameya.embedded.groups.member_sessions import MemberKey
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import JoinGroupResult
from sarameya.error_codes import ErrorCode
from tests.embedded.coordinator_kit import GROUP, REBALANCE, SESSION, HeldReply, Kit, config

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID

# --- 002: the checks of a heartbeat, in their order ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("served", "state", "sender", "generation", "answer"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "Stable", "member", 2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, "Stable", "member", 2, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "Stable", "ghost", 1, NONE),
        (NONE, "no group", "member", 2, UNKNOWN),
        (NONE, "Dead", "member", 2, UNKNOWN),
        (NONE, "PreparingRebalance", "ghost", 1, ErrorCode.REBALANCE_IN_PROGRESS),
        (NONE, "CompletingRebalance", "ghost", 1, ErrorCode.REBALANCE_IN_PROGRESS),
        (NONE, "Stable", "ghost", 1, UNKNOWN),
        (NONE, "Stable", "member", 1, ErrorCode.ILLEGAL_GENERATION),
        (NONE, "Stable", "member", 2, NONE),
    ],
    ids=[
        "coordinator not active",
        "not the coordinator of this group",
        "offsets partition still loading: no other check",
        "no such group",
        "group is Dead",
        "group not Stable: preparing",
        "group not Stable: completing",
        "member not in the group",
        "other generation",
        "all checks passed",
    ],
)
def test_document_002_heartbeat_checks_in_their_order(
    served: ErrorCode, state: str, sender: str, generation: int, answer: ErrorCode
) -> None:
    """Each row also meets the conditions of later rows where possible, so that the order decides."""
    refusal = NONE
    kit = Kit(config(heartbeat_checks=STATE_FIRST), serves=lambda group_id: refusal)
    member_id = "member"
    if state != "no group":
        member_id, other = kit.stable(2)
        if state in ("PreparingRebalance", "CompletingRebalance"):
            kit.join(member_id)
        if state == "CompletingRebalance":
            kit.join(other)
        if state == "Dead":
            kit.group.state = GroupState.DEAD
        else:
            assert kit.state is GroupState(state)
    refusal = served
    assert kit.heartbeat(member_id if sender == "member" else "ghost", generation) is answer


def test_document_002_heartbeat_checks_are_not_the_default() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    assert kit.heartbeat("ghost", 1) is UNKNOWN, "the member is checked before the state"
    kit.join(second)
    assert kit.heartbeat(first, 3) is NONE, "heartbeats start with the join's response"


# --- 002: the delayed heartbeat ------------------------------------------------------------------------------------


def test_document_002_heartbeat_replaces_the_delayed_one() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    purgatory, key = kit.coordinator._rebalancer.sessions.purgatory, MemberKey(GROUP, member_id)
    for _ in range(5):
        kit.advance(3)
        kit.heartbeat(member_id)
        assert (purgatory.watched(key), purgatory.next_deadline()) == (1, kit.now + SESSION)


@pytest.mark.parametrize("waits_for", ["join answer", "sync answer"])
def test_document_002_held_request_keeps_the_member_alive(waits_for: str) -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    silent, beating = first, second
    if waits_for == "sync answer":
        kit.join(second)
        kit.sync(second)
        silent, beating = second, first
    for _ in range(5):
        kit.advance(SESSION - 1)
        kit.heartbeat(beating)
    assert kit.member_ids == [first, second]
    assert kit.coordinator._rebalancer.sessions.purgatory.watched(MemberKey(GROUP, silent)) == 0


def test_document_002_leave_completes_the_delayed_heartbeat() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    kit.leave(member_id)
    assert kit.coordinator.next_deadline() is None


@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.COMPLETING_REBALANCE])
def test_document_002_failed_member_starts_a_rebalance(state: GroupState) -> None:
    kit = Kit()
    first, second = kit.stable(2)
    if state is GroupState.COMPLETING_REBALANCE:
        kit.join(first)
        kit.join(second)
    assert kit.state is state
    kit.advance(SESSION - 1)
    kit.heartbeat(first)
    kit.advance(1)
    assert (kit.state, kit.member_ids) == (GroupState.PREPARING_REBALANCE, [first])


def test_document_002_expiry_may_end_the_join_phase() -> None:
    kit = Kit()
    first, _second = kit.stable(2)
    waiting = kit.join(first)
    kit.advance(SESSION)
    assert (waiting.answer.generation, kit.state) == (3, GroupState.COMPLETING_REBALANCE)


def test_document_002_expiry_in_a_dead_group_changes_nothing() -> None:
    kit = Kit()
    kit.stable(1)
    kit.coordinator.unload(GROUP, kit.now)
    assert kit.coordinator.next_deadline() is None


# --- 000 and 004: join, sync, states -------------------------------------------------------------------------------


def test_documents_join_and_sync_lead_through_the_states() -> None:
    kit = Kit()
    assert kit.state is GroupState.DEAD, "a missing group"
    first, _ = kit.join_new()
    kit.settle([first])
    assert kit.state is GroupState.STABLE
    second, joining = kit.join_new()
    assert (kit.state, joining.is_answered) == (GroupState.PREPARING_REBALANCE, False)
    assert kit.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS, "members learn of the rebalance from this"
    rejoining = kit.join(first)
    assert kit.state is GroupState.COMPLETING_REBALANCE
    assert (joining.answer.generation, rejoining.answer.generation) == (2, 2)
    following = kit.sync(second)
    assert not following.is_answered
    leading = kit.sync(first, {first: b"1", second: b"2"})
    assert (leading.answer.assignment, following.answer.assignment) == (b"1", b"2")
    assert kit.state is GroupState.STABLE
    kit.leave(first, second)
    assert kit.state is GroupState.EMPTY


def test_documents_join_phase_ends_at_the_rebalance_timeout() -> None:
    kit = Kit()
    first, second, third = kit.stable(3)
    waiting = [kit.join(first), kit.join(second)]
    for _ in range(int(REBALANCE)):
        assert not waiting[0].is_answered
        kit.heartbeat(third)  # alive, and drains
        kit.advance(1)
    assert [reply.answer.generation for reply in waiting] == [4, 4]
    assert kit.member_ids == [first, second]
    assert kit.heartbeat(third) is UNKNOWN


def test_documents_leader_is_the_first_member_to_join() -> None:
    kit = Kit()
    first, second, third = kit.stable(3)
    assert kit.group.leader == first
    kit.leave(first)
    replies: list[HeldReply[JoinGroupResult]] = [kit.join(member_id) for member_id in (third, second)]
    assert {reply.answer.leader for reply in replies} == {second}
    assert [len(reply.answer.members) for reply in replies] == [0, 2], "only the leader gets the member list"


def test_documents_generation_fences_a_removed_member() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.leave(first)
    kit.join(second)
    kit.settle([second])
    assert kit.heartbeat(second, 2) is ErrorCode.ILLEGAL_GENERATION
    assert kit.sync(second, {second: b"old"}, generation=2).answer.error is ErrorCode.ILLEGAL_GENERATION
    assert kit.commit(second, 2) is ErrorCode.ILLEGAL_GENERATION
    assert kit.commit(first, 2) is UNKNOWN
