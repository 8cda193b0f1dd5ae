"""Static membership (KIP-345, KIP-814): returning members, fencing, and the rebalances that they start."""

from __future__ import annotations

import pytest

from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import JoinGroupResult, SyncGroupResult
from sarameya.embedded.groups.model.stored import GroupImage, GroupRecord, MemberRecord
from sarameya.error_codes import ErrorCode
from tests.embedded.coordinator_kit import GROUP, SESSION, Kit, protocols


def static_group(kit: Kit) -> tuple[str, str]:
    """Return a Stable group of the static members i1 (the leader) and i2. Each is assigned its own member id."""
    first = kit.join(group_instance_id="i1").answer.member_id
    waiting = kit.join(group_instance_id="i2")
    kit.join(first, group_instance_id="i1")
    second = waiting.answer.member_id
    kit.settle([first, second])
    return first, second


def test_static_member_joins_without_a_member_id_first() -> None:
    kit = Kit()
    answer = kit.join(group_instance_id="i1").answer
    assert (answer.error, answer.generation) == (ErrorCode.NONE, 1)
    assert answer.member_id.startswith("i1-")
    assert [m.group_instance_id for m in answer.members] == ["i1"]


def test_returning_static_follower_keeps_its_assignment() -> None:
    kit = Kit()
    first, second = static_group(kit)
    answer = kit.join(group_instance_id="i2").answer
    assert answer.member_id not in (first, second)
    assert answer == JoinGroupResult(ErrorCode.NONE, answer.member_id, 2, "consumer", "range", first)
    assert kit.state is GroupState.STABLE
    assert kit.sync(answer.member_id, group_instance_id="i2").answer.assignment == second.encode()


def test_returning_static_leader_skips_the_assignment() -> None:
    kit = Kit()
    first, second = static_group(kit)
    answer = kit.join(group_instance_id="i1").answer
    assert (answer.skip_assignment, answer.leader) == (True, answer.member_id)
    assert {m.member_id for m in answer.members} == {answer.member_id, second}
    assert kit.sync(answer.member_id).answer.assignment == first.encode()
    assert kit.state is GroupState.STABLE


def test_returning_static_leader_before_v9_becomes_a_follower() -> None:
    kit = Kit()
    first, _ = static_group(kit)
    answer = kit.join(group_instance_id="i1", can_skip_assignment=False).answer
    assert (answer.skip_assignment, answer.leader, answer.members) == (False, first, ())
    assert kit.group.leader == answer.member_id


def test_returning_leader_leads_the_next_round() -> None:
    kit = Kit()
    _, second = static_group(kit)
    leader = kit.join(group_instance_id="i1").answer.member_id
    waiting = kit.join(leader, group_instance_id="i1")
    kit.join(second, group_instance_id="i2")
    assert (waiting.answer.leader, waiting.answer.skip_assignment) == (leader, False)


def test_short_absence_of_a_static_member_starts_no_rebalance() -> None:
    kit = Kit()
    first, _ = static_group(kit)
    kit.advance(SESSION - 1)
    kit.heartbeat(first)
    returned = kit.join(group_instance_id="i2").answer
    assert (returned.generation, kit.state) == (2, GroupState.STABLE)


def test_static_member_away_for_its_session_is_removed() -> None:
    kit = Kit()
    first, _ = static_group(kit)
    kit.advance(SESSION / 2)
    kit.heartbeat(first)
    kit.advance(SESSION / 2)
    assert (kit.state, kit.member_ids) == (GroupState.PREPARING_REBALANCE, [first])


def test_replaced_static_member_has_a_new_session() -> None:
    kit = Kit()
    first, _ = static_group(kit)
    kit.advance(SESSION / 2)
    returned = kit.join(group_instance_id="i2").answer.member_id
    kit.heartbeat(first)
    kit.advance(SESSION / 2)
    assert kit.member_ids == [first, returned]
    kit.heartbeat(first)
    kit.advance(SESSION / 2)
    assert kit.member_ids == [first]


@pytest.mark.parametrize("with_instance", [True, False])
def test_old_member_id_is_refused_everywhere(with_instance: bool) -> None:
    kit = Kit()
    _, old = static_group(kit)
    kit.join(group_instance_id="i2")
    instance = "i2" if with_instance else None
    error = ErrorCode.FENCED_INSTANCE_ID if with_instance else ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.heartbeat(old, instance=instance) is error
    assert kit.join(old, group_instance_id=instance).answer == JoinGroupResult(error, old)
    assert kit.sync(old, group_instance_id=instance).answer == SyncGroupResult(error)
    assert kit.commit(old, 2, group_instance_id=instance) is error


def test_static_twin_fences_a_held_join() -> None:
    kit = Kit()
    first, second = static_group(kit)
    waiting = kit.join(second, group_instance_id="i2", protocols=protocols("range", metadata=b"new"))
    twin = kit.join(group_instance_id="i2")
    assert waiting.answer == JoinGroupResult(ErrorCode.FENCED_INSTANCE_ID, second)
    assert not twin.is_answered
    kit.join(first, group_instance_id="i1")
    assert twin.answer.generation == 3


def test_static_twin_fences_a_held_sync() -> None:
    kit = Kit()
    first, second = static_group(kit)
    kit.join(first, group_instance_id="i1")
    kit.join(second, group_instance_id="i2")
    waiting = kit.sync(second)
    twin = kit.join(group_instance_id="i2")
    assert waiting.answer == SyncGroupResult(ErrorCode.FENCED_INSTANCE_ID)
    assert kit.state is GroupState.PREPARING_REBALANCE
    kit.join(first, group_instance_id="i1")
    assert twin.answer.generation == 4


def test_static_return_with_another_protocol_starts_a_rebalance() -> None:
    kit = Kit()
    both = {"protocols": protocols("range", "sticky")}
    first = kit.join(group_instance_id="i1", **both).answer.member_id
    waiting = kit.join(group_instance_id="i2", **both)
    kit.join(first, group_instance_id="i1", **both)
    kit.settle([first, waiting.answer.member_id])
    returned = kit.join(group_instance_id="i2", protocols=protocols("sticky"))
    assert kit.state is GroupState.PREPARING_REBALANCE
    kit.join(first, group_instance_id="i1", **both)
    assert returned.answer.protocol_name == "sticky"


def test_late_static_member_stays_until_its_session_ends() -> None:
    kit = Kit()
    first = kit.join(group_instance_id="i1", session_timeout=100.0).answer.member_id
    kit.settle([first])
    dynamic, waiting = kit.join_new()
    kit.advance(60)
    assert waiting.answer.leader == dynamic
    assert [m.group_instance_id for m in waiting.answer.members] == ["i1", None]
    assert kit.member_ids == [first, dynamic]


def test_rebalance_waits_for_static_members_until_they_expire() -> None:
    kit = Kit()
    # The rebalance timeout is 0: the coordinator retries the wait once a second, never without a pause.
    member = MemberRecord("i1-x", "i1", "client", "host", 100.0, 0.0, b"", b"")
    kit.coordinator.load(GroupImage(GROUP, GroupRecord(1, "consumer", "range", "i1-x", (member,)), {}), kit.now)
    kit.leave(kit.join_new()[0])
    assert kit.state is GroupState.PREPARING_REBALANCE
    kit.advance(99.9)
    assert kit.member_ids == ["i1-x"]
    kit.advance(0.1)
    assert (kit.state, kit.member_ids) == (GroupState.EMPTY, [])


def test_member_that_returns_before_its_sync_has_to_sync() -> None:
    kit = Kit()
    first, second = static_group(kit)
    kit.join(first, group_instance_id="i1")
    kit.join(second, group_instance_id="i2")
    kit.sync(first, {second: b"2"})
    returned = kit.join(group_instance_id="i2").answer.member_id
    assert kit.group.pending_sync == {returned}
    assert kit.sync(returned).answer.assignment == b"2"
    assert kit.group.pending_sync == set()


def test_return_of_a_static_member_is_stored() -> None:
    kit = Kit()
    static_group(kit)
    returned = kit.join(group_instance_id="i2").answer.member_id
    record = kit.groups_log[-1]
    assert record is not None
    assert returned in [member.member_id for member in record.members]
