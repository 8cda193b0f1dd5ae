"""JoinGroup and SyncGroup: rebalances from the first join to the assignment."""

from __future__ import annotations

from typing import Any

import pytest

from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import JoinedMember, JoinGroupResult, SyncGroupResult
from sarameya.embedded.groups.model.stored import GroupRecord
from sarameya.error_codes import ErrorCode
from tests.embedded.coordinator_kit import GROUP, REBALANCE, SESSION, Kit, config, join_request, protocols

# --- a member id first (KIP-394) -----------------------------------------------------------------------------------


def test_first_join_gets_a_member_id_and_adds_no_member() -> None:
    kit = Kit()
    answer = kit.join().answer
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")
    assert (kit.state, kit.member_ids) == (GroupState.EMPTY, [])


def test_first_join_before_v4_adds_the_member_at_once() -> None:
    kit = Kit()
    answer = kit.join(requires_known_member_id=False).answer
    assert (answer.error, answer.generation) == (ErrorCode.NONE, 1)


def test_second_join_within_the_session_timeout_adds_the_member() -> None:
    kit = Kit()
    member_id = kit.new_id()
    kit.advance(SESSION - 0.1)
    assert kit.join(member_id).answer.error is ErrorCode.NONE


def test_second_join_after_the_session_timeout_is_unknown() -> None:
    kit = Kit()
    member_id = kit.new_id()
    kit.advance(SESSION)
    assert kit.join(member_id).answer == JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id)


def test_group_with_a_pending_member_is_stored() -> None:
    kit = Kit()
    kit.advance(3.0)
    kit.new_id()
    assert kit.groups_log == [GroupRecord(0, "", None, None, (), state_time=kit.time_of_day())]


def test_join_phase_waits_for_a_pending_member() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    pending = kit.new_id()
    rejoin = kit.join(first)
    assert not rejoin.is_answered
    joined = kit.join(pending)
    assert (rejoin.answer.generation, joined.answer.generation) == (2, 2)


def test_join_phase_ends_when_the_pending_member_expires() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    kit.new_id()
    rejoin = kit.join(first)
    kit.advance(SESSION)
    assert rejoin.answer.generation == 2
    assert kit.member_ids == [first]


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout": 5.999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout": 1800.001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_join_to_a_missing_group_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    kit = Kit()
    member_id = fields.pop("member_id", "")
    assert kit.join(member_id, **fields).answer == JoinGroupResult(error, member_id)
    assert kit.coordinator.next_deadline() is None


@pytest.mark.parametrize("seconds", [6.0, 1800.0])
def test_join_with_a_session_timeout_at_a_bound_is_accepted(seconds: float) -> None:
    assert Kit().join(session_timeout=seconds).answer.error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocols": protocols("sticky")}, {"protocols": ()}]
)
def test_join_without_a_protocol_in_common_is_refused(fields: dict[str, Any]) -> None:
    kit = Kit()
    kit.stable(2)
    assert kit.join(**fields).answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert kit.state is GroupState.STABLE


def test_join_of_an_unknown_member_id_is_refused() -> None:
    kit = Kit()
    kit.stable(1)
    assert kit.join("ghost").answer == JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID, "ghost")


def test_join_beyond_the_maximum_size_is_refused() -> None:
    kit = Kit(config(max_size=2))
    ids = kit.stable(2)
    assert kit.join().answer == JoinGroupResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (kit.state, kit.member_ids) == (GroupState.STABLE, ids)


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE])
@pytest.mark.parametrize(
    "kind_of_join", ["new", "new, before v4", "with a pending id", "new and static", "static, returning", "member"]
)
def test_maximum_size_applies_to_every_kind_of_join(kind_of_join: str, state: GroupState) -> None:
    kit = Kit(config(max_size=2))
    static = kit.join(group_instance_id="i").answer.member_id
    kit.settle([static])
    pending_id = kit.new_id(session_timeout=100.0)
    other, _ = kit.join_new()
    kit.join(static, group_instance_id="i")
    if state is not GroupState.PREPARING_REBALANCE:
        kit.advance(REBALANCE)  # the round has waited for the pending member
    if state is GroupState.STABLE:
        kit.settle([static, other])
    assert kit.state is state
    reply = {
        "new": lambda: kit.join(),
        "new, before v4": lambda: kit.join(requires_known_member_id=False),
        "with a pending id": lambda: kit.join(pending_id),
        "new and static": lambda: kit.join(group_instance_id="another"),
        "static, returning": lambda: kit.join(group_instance_id="i"),  # as in Kafka
        "member": lambda: kit.join(other),
    }[kind_of_join]()
    if kind_of_join == "member":
        assert not reply.is_answered or reply.answer.error is ErrorCode.NONE
    else:
        assert reply.answer == JoinGroupResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert (pending_id in kit.group.pending_members) == (kind_of_join != "with a pending id")


def test_load_of_an_oversized_group_starts_a_rebalance() -> None:
    large = Kit()
    ids = large.stable(3)
    image = large.coordinator.unload(GROUP, 0)
    assert image is not None
    for limit, state in ((2, GroupState.PREPARING_REBALANCE), (3, GroupState.STABLE)):
        kit = Kit(config(max_size=limit))
        kit.coordinator.load(image, kit.now)
        assert (kit.state, kit.member_ids) == (state, ids)


def test_lowered_maximum_size_refuses_the_last_members_to_join() -> None:
    large = Kit()
    first, second, third = large.stable(3)
    image = large.coordinator.unload(GROUP, 0)
    assert image is not None
    kit = Kit(config(max_size=2))
    kit.coordinator.load(image, kit.now)
    rejoin, replaced, again = kit.join(first), kit.join(third), kit.join(third)  # it has joined, so it may join again
    assert kit.join(second).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert replaced.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (rejoin.answer.generation, again.answer.generation) == (4, 4)
    assert kit.member_ids == [first, third]


def test_last_join_beyond_the_maximum_size_is_refused() -> None:
    kit = Kit(config(max_size=2))
    (first,) = kit.stable(1)
    pending = [kit.new_id(), kit.new_id()]
    second, rejoin, third = kit.join(pending[0]), kit.join(first), kit.join(pending[1])
    assert third.answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (second.answer.generation, rejoin.answer.generation) == (2, 2)
    assert sorted(kit.member_ids) == sorted([first, pending[0]])


# --- rounds --------------------------------------------------------------------------------------------------------


def test_single_member_joins_syncs_and_is_stable() -> None:
    kit = Kit()
    member_id, reply = kit.join_new()
    assert reply.answer == JoinGroupResult(
        ErrorCode.NONE,
        member_id,
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        members=(JoinedMember(member_id, None, b"range"),),
    )
    assert kit.state is GroupState.COMPLETING_REBALANCE
    synced = kit.sync(member_id, {member_id: b"all of it"})
    assert synced.answer == SyncGroupResult(ErrorCode.NONE, "consumer", "range", b"all of it")
    assert kit.state is GroupState.STABLE


def test_first_of_three_members_leads_and_gets_the_member_list() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    pending = [kit.new_id(), kit.new_id()]
    joins = {member_id: kit.join(member_id) for member_id in pending}
    assert kit.state is GroupState.PREPARING_REBALANCE
    joins[first] = kit.join(first)
    answers = {member_id: reply.answer for member_id, reply in joins.items()}
    assert {(a.error, a.generation, a.leader) for a in answers.values()} == {(ErrorCode.NONE, 2, first)}
    assert [m.member_id for m in answers[first].members] == [first, *pending]
    assert [answers[member_id].members for member_id in pending] == [(), ()]


def test_followers_syncs_wait_for_the_leaders() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    follower = kit.sync(second)
    assert not follower.is_answered
    leader = kit.sync(first, {first: b"1", second: b"2"})
    assert (leader.answer.assignment, follower.answer.assignment) == (b"1", b"2")


def test_assignments_in_a_followers_sync_are_ignored() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    kit.sync(second, {first: b"usurped", second: b"usurped"})
    assert kit.state is GroupState.COMPLETING_REBALANCE
    assert kit.sync(first, {first: b"1"}).answer.assignment == b"1"


def test_member_without_an_assignment_gets_empty_bytes() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    follower = kit.sync(second)
    kit.sync(first, {first: b"1"})
    assert follower.answer == SyncGroupResult(ErrorCode.NONE, "consumer", "range", b"")


def test_late_sync_in_a_stable_group_gets_its_assignment() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    kit.sync(first, {second: b"2"})
    assert kit.state is GroupState.STABLE
    assert kit.sync(second).answer.assignment == b"2"


@pytest.mark.parametrize("count", [2, 3, 7])
def test_oldest_remaining_member_leads_after_the_leader_leaves(count: int) -> None:
    kit = Kit()
    ids = kit.stable(count)
    kit.leave(ids[0])
    replies = [kit.join(member_id) for member_id in reversed(ids[1:])]
    assert {reply.answer.leader for reply in replies} == {ids[1]}


def test_join_in_completing_rebalance_restarts_the_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    newcomer, third = kit.join_new()
    assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.sync(first, {first: b"stale"}).answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    joins = [kit.join(first), kit.join(second)]
    assert third.answer.generation == kit.group.generation == 4
    assert {reply.answer.generation for reply in joins} == {4}
    assert kit.member_ids == [first, second, newcomer]


def test_slow_joiner_is_removed_at_the_rebalance_timeout() -> None:
    kit = Kit()
    first, second, third = kit.stable(3)
    waiting = [kit.join(first), kit.join(third, protocols=protocols("range", metadata=b"new"))]
    for _ in range(11):  # the second member heartbeats, so that it does not expire, but does not join
        kit.advance(5)
        assert kit.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not any(reply.is_answered for reply in waiting)
    kit.advance(5)
    assert [reply.answer.generation for reply in waiting] == [4, 4]
    assert kit.member_ids == [first, third]
    assert kit.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_join_phase_lasts_for_the_longest_rebalance_timeout() -> None:
    kit = Kit()
    first, second = kit.stable(2, session_timeout=1000.0)
    rejoin = kit.join(first, session_timeout=1000.0, rebalance_timeout=100.0)
    kit.advance(99.9)
    assert not rejoin.is_answered
    kit.advance(0.1)
    assert rejoin.answer.generation == 3
    assert second not in kit.member_ids


def test_leader_that_does_not_join_in_time_is_replaced() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    newcomer, reply = kit.join_new()
    rejoin = kit.join(second)
    kit.advance(SESSION)
    assert (reply.answer.leader, rejoin.answer.leader) == (second, second)
    assert kit.member_ids == [second, newcomer]
    assert first not in kit.member_ids


# --- joins of known members, by state ------------------------------------------------------------------------------


def test_rejoin_in_preparing_rebalance_takes_the_new_metadata() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second, protocols=protocols("range", metadata=b"topics: t, u"))
    assert kit.group.members[second].metadata("range") == b"topics: t, u"


@pytest.mark.parametrize("leads", [True, False])
def test_unchanged_rejoin_in_completing_rebalance_gets_its_result(leads: bool) -> None:
    kit = Kit()
    first, second = kit.stable(2)
    replies = {first: kit.join(first), second: kit.join(second)}
    member_id = first if leads else second
    assert kit.join(member_id).answer == replies[member_id].answer
    assert kit.state is GroupState.COMPLETING_REBALANCE


def test_changed_rejoin_in_completing_rebalance_restarts_it() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    changed = kit.join(first, protocols=protocols("range", metadata=b"more"))
    assert not changed.is_answered
    assert kit.state is GroupState.PREPARING_REBALANCE
    assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_unchanged_rejoin_of_a_follower_starts_no_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    answer = kit.join(second).answer
    assert (answer.error, answer.generation, answer.leader, answer.members) == (ErrorCode.NONE, 2, first, ())
    assert kit.state is GroupState.STABLE
    assert kit.sync(second).answer.assignment == second.encode()


@pytest.mark.parametrize("leads", [True, False])
def test_changed_rejoin_in_a_stable_group_starts_a_rebalance(leads: bool) -> None:
    kit = Kit()
    first, second = kit.stable(2)
    changed = kit.join(first if leads else second, protocols=protocols("range", metadata=b"more"))
    assert not changed.is_answered
    assert kit.state is GroupState.PREPARING_REBALANCE


def test_unchanged_rejoin_of_the_leader_starts_a_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    again = kit.join(first)
    assert kit.state is GroupState.PREPARING_REBALANCE
    kit.join(second)
    assert again.answer.generation == 3


def test_second_join_ends_the_held_first_join() -> None:
    kit = Kit()
    first, _second = kit.stable(2)
    replaced, again = kit.join(first), kit.join(first)
    assert replaced.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not again.is_answered


def test_second_sync_ends_the_held_first_sync() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    replaced, again = kit.sync(second), kit.sync(second)
    assert replaced.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    kit.sync(first, {second: b"2"})
    assert again.answer.assignment == b"2"


# --- the choice of the protocol ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        ([("range",)], "range"),
        ([("range", "sticky"), ("range", "sticky"), ("sticky", "range")], "range"),
        ([("range", "sticky"), ("sticky", "range"), ("sticky", "range")], "sticky"),
        ([("range", "sticky"), ("sticky",)], "sticky"),  # only protocols that all members support are candidates
        ([("a", "b", "c"), ("b", "c", "a"), ("c", "b"), ("c", "b")], "b"),  # b and c have 2 votes each, and b was first
        ([("a", "b"), ("b", "a")], "a"),  # a tie: the older member's choice
        ([("range", "range")], "range"),  # a client that names it twice
    ],
)
def test_common_protocol_with_the_most_votes_is_chosen(lists: list[tuple[str, ...]], chosen: str) -> None:
    kit = Kit()
    ids: list[str] = []
    for names in lists:
        newcomer, reply = kit.join_new(protocols=protocols(*names))
        for member_id, its_names in zip(ids, lists, strict=False):
            kit.join(member_id, protocols=protocols(*its_names))
        ids.append(newcomer)
    assert reply.answer.protocol_name == chosen


def test_member_that_drops_the_protocol_changes_the_choice() -> None:
    kit = Kit()
    both = {"protocols": protocols("range", "sticky")}
    first, second = kit.stable(2, **both)
    assert kit.group.protocol_name == "range"
    kit.join(second, protocols=protocols("sticky"))
    assert kit.join(first, **both).answer.protocol_name == "sticky"


# --- the initial delay ---------------------------------------------------------------------------------------------


def delayed(seconds: float) -> Kit:
    return Kit(config(initial_rebalance_delay=seconds))


def test_initial_delay_collects_members_in_one_generation() -> None:
    kit = delayed(3)
    _, first = kit.join_new()
    kit.advance(2)
    assert not first.is_answered
    _, second = kit.join_new()
    kit.advance(1)  # the new member has extended the delay by another 3 s
    assert not first.is_answered
    kit.advance(2.9)
    assert not first.is_answered
    kit.advance(0.1)
    assert (first.answer.generation, second.answer.generation) == (1, 1)


def test_initial_delay_without_newcomers_is_not_extended() -> None:
    kit = delayed(3)
    _, reply = kit.join_new()
    kit.advance(3)
    assert reply.answer.generation == 1


def test_initial_delay_ends_at_the_rebalance_timeout() -> None:
    kit = delayed(3)
    replies = [kit.join_new(rebalance_timeout=10.0)[1]]
    for _ in range(9):
        kit.advance(1)
        replies.append(kit.join_new(rebalance_timeout=10.0)[1])
    assert not replies[0].is_answered
    kit.advance(1)
    assert {reply.answer.generation for reply in replies} == {1}


def test_later_rounds_have_no_initial_delay() -> None:
    kit = delayed(3)
    first, reply = kit.join_new()
    kit.advance(3)
    kit.sync(first)
    _, second = kit.join_new()
    kit.join(first)
    assert (reply.answer.generation, second.answer.generation) == (1, 2)


def test_initial_delay_is_extended_by_new_members_only() -> None:
    kit = delayed(3)
    first, _ = kit.join_new(rebalance_timeout=3.0)
    kit.advance(1)
    second, _ = kit.join_new(rebalance_timeout=3.0)
    kit.advance(2)  # the rebalance timeout left no time to extend the delay
    kit.leave(first, second)
    _, reply = kit.join_new()
    kit.advance(3)
    assert reply.answer.generation == 3


def test_initial_delay_without_members_leaves_an_empty_group() -> None:
    kit = delayed(3)
    member_id, reply = kit.join_new()
    kit.leave(member_id)
    assert reply.answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    kit.advance(3)
    assert kit.state is GroupState.EMPTY
    assert kit.coordinator.next_deadline() is None


def test_first_round_does_not_wait_for_a_pending_member() -> None:
    kit = Kit()
    kit.new_id()
    _, reply = kit.join_new()
    assert reply.answer.generation == 1


# --- sync: refusals and deadline -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "fields", "error"),
    [
        ("ghost", {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("member", {"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ("member", {"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ("member", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("member", {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("member", {"group_instance_id": "unheard-of"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("ghost", {"generation": 0, "protocol_name": "sticky"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("member", {"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("state", [GroupState.COMPLETING_REBALANCE, GroupState.STABLE])
def test_sync_is_checked_in_kafkas_order(
    state: GroupState, member: str, fields: dict[str, Any], error: ErrorCode
) -> None:
    kit = Kit()
    member_id, _ = kit.join_new()
    if state is GroupState.STABLE:
        kit.settle([member_id])
    reply = kit.sync(member_id if member == "member" else member, **fields)
    assert reply.answer.error is error


def test_sync_before_the_first_choice_gets_rebalance_in_progress() -> None:
    kit = Kit(config(initial_rebalance_delay=3.0))
    member_id, _ = kit.join_new()
    reply = kit.sync(member_id, protocol_type="consumer", protocol_name="sticky")
    assert reply.answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_to_a_missing_group_is_an_unknown_member() -> None:
    assert Kit().sync("ghost").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_to_a_group_without_an_id_is_refused() -> None:
    assert Kit().sync("ghost", group_id="").answer.error is ErrorCode.INVALID_GROUP_ID


def test_sync_in_preparing_rebalance_gets_rebalance_in_progress() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    assert kit.sync(second).answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_leader_without_a_sync_is_removed() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    for _ in range(12):
        kit.heartbeat(first)
        kit.advance(5)
    assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.member_ids == [second]
    assert kit.join(second).answer.leader == second


def test_follower_without_a_sync_is_removed() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    kit.sync(first)
    assert kit.state is GroupState.STABLE
    for _ in range(12):
        assert kit.heartbeat(first) is kit.heartbeat(second) is ErrorCode.NONE
        kit.advance(5)
    assert kit.member_ids == [first]
    assert kit.state is GroupState.PREPARING_REBALANCE


def test_late_sync_in_a_stable_group_renews_no_session() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    kit.sync(first)
    kit.advance(SESSION - 1)
    kit.sync(second)
    kit.heartbeat(first)
    kit.advance(SESSION - 1)
    assert kit.member_ids == [first]


def test_synced_generation_has_only_session_deadlines() -> None:
    kit = Kit()
    kit.stable(3)
    assert kit.coordinator._rebalancer.purgatory.next_deadline() is None
    assert kit.coordinator.next_deadline() == kit.now + SESSION


# --- replies -------------------------------------------------------------------------------------------------------


def test_reply_may_call_the_coordinator_again() -> None:
    kit = Kit()
    results: list[SyncGroupResult] = []

    def sync_at_once(answer: JoinGroupResult) -> None:
        assert kit.state is GroupState.COMPLETING_REBALANCE
        results.append(kit.sync(answer.member_id, {answer.member_id: b"mine"}).answer)

    kit.coordinator.join(join_request(kit.new_id()), kit.now, sync_at_once)
    assert [answer.assignment for answer in results] == [b"mine"]
    assert kit.state is GroupState.STABLE
