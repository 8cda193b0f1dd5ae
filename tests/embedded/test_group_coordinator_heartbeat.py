"""Heartbeats and sessions: both tables of checks row by row, and the expiry of members."""

from __future__ import annotations

import pytest

from sarameya.embedded.groups.heartbeat_checks import MEMBER_FIRST, STATE_FIRST, HeartbeatChecks, first_that_holds
from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import HeartbeatRequest
from sarameya.error_codes import ErrorCode
from tests.embedded.coordinator_kit import GROUP, SESSION, Kit, config, protocols

E, P, C, S, D = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
FENCED = ErrorCode.FENCED_INSTANCE_ID
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE

BOTH = pytest.mark.parametrize("checks", [MEMBER_FIRST, STATE_FIRST], ids=["member first", "state first"])

# --- the tables ----------------------------------------------------------------------------------------------------

UNKNOWN_MEMBER, MEMBER, OTHER_GENERATION, FENCED_MEMBER = (
    ("stranger", 3, None),
    ("m", 3, None),
    ("m", 2, None),
    ("m", 3, "i"),
)


@pytest.mark.parametrize(
    ("state", "request_of", "member_first", "state_first"),
    [
        (D, MEMBER, (UNAVAILABLE, False), (UNKNOWN, False)),
        (D, UNKNOWN_MEMBER, (UNAVAILABLE, False), (UNKNOWN, False)),
        (E, UNKNOWN_MEMBER, (UNKNOWN, False), (REBALANCING, False)),
        (P, UNKNOWN_MEMBER, (UNKNOWN, False), (REBALANCING, False)),
        (C, UNKNOWN_MEMBER, (UNKNOWN, False), (REBALANCING, False)),
        (S, UNKNOWN_MEMBER, (UNKNOWN, False), (UNKNOWN, False)),
        (P, FENCED_MEMBER, (FENCED, False), (REBALANCING, False)),
        (C, FENCED_MEMBER, (FENCED, False), (REBALANCING, False)),
        (S, FENCED_MEMBER, (FENCED, False), (FENCED, False)),
        (P, OTHER_GENERATION, (ILLEGAL, False), (REBALANCING, False)),
        (C, OTHER_GENERATION, (ILLEGAL, False), (REBALANCING, False)),
        (S, OTHER_GENERATION, (ILLEGAL, False), (ILLEGAL, False)),
        (P, MEMBER, (REBALANCING, True), (REBALANCING, False)),
        (C, MEMBER, (OK, True), (REBALANCING, False)),
        (S, MEMBER, (OK, True), (OK, True)),
    ],
)
def test_first_matching_row_answers_the_heartbeat(
    state: GroupState,
    request_of: tuple[str, int, str | None],
    member_first: tuple[ErrorCode, bool],
    state_first: tuple[ErrorCode, bool],
) -> None:
    group = ClassicGroup(GROUP)
    for member_id, instance_id in [("m", None), ("new holder", "i")]:
        group.add(ClassicGroupMember(member_id, instance_id, "client", "host", SESSION, 60.0, protocols("range")))
    group.generation, group.state = 3, state
    member_id, generation, instance_id = request_of
    request = HeartbeatRequest(GROUP, generation, member_id, instance_id)
    for checks, expected in [(MEMBER_FIRST, member_first), (STATE_FIRST, state_first)]:
        check = first_that_holds(checks, group, request)
        assert (check.error, check.keeps_alive) == expected


@BOTH
@pytest.mark.parametrize(
    ("served", "answer"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),  # without any check
        (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID),  # no such group
    ],
)
def test_heartbeat_to_a_missing_group_is_answered_first(
    checks: HeartbeatChecks, served: ErrorCode, answer: ErrorCode
) -> None:
    kit = Kit(config(heartbeat_checks=checks), serves=lambda group_id: served)
    assert kit.heartbeat("m", 1) is answer


def test_heartbeat_to_a_group_without_an_id_is_refused() -> None:
    assert Kit().coordinator.heartbeat(HeartbeatRequest("", 1, "m"), 0) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("checks", "completing"), [(MEMBER_FIRST, OK), (STATE_FIRST, REBALANCING)], ids=["member first", "state first"]
)
def test_heartbeat_through_a_whole_round_follows_the_table(checks: HeartbeatChecks, completing: ErrorCode) -> None:
    kit = Kit(config(heartbeat_checks=checks))
    first, second = kit.stable(2)
    assert kit.heartbeat(first) is OK
    kit.join(first)
    assert kit.heartbeat(second) is REBALANCING
    kit.join(second)
    assert (kit.state, kit.heartbeat(first), kit.heartbeat(second)) == (C, completing, completing)
    kit.settle([first, second])
    assert kit.heartbeat(first) is OK


# --- expiry --------------------------------------------------------------------------------------------------------


@BOTH
def test_member_that_heartbeats_in_time_stays(checks: HeartbeatChecks) -> None:
    kit = Kit(config(heartbeat_checks=checks))
    (member_id,) = kit.stable(1)
    for _ in range(100):
        kit.advance(SESSION - 0.001)
        assert kit.heartbeat(member_id) is OK


@BOTH
def test_silent_member_expires_at_its_session_timeout(checks: HeartbeatChecks) -> None:
    kit = Kit(config(heartbeat_checks=checks))
    (member_id,) = kit.stable(1)
    kit.advance(3)
    kit.heartbeat(member_id)
    kit.advance(SESSION - 0.001)
    assert kit.state is GroupState.STABLE
    kit.advance(0.001)
    assert (kit.state, kit.member_ids) == (GroupState.EMPTY, [])
    assert kit.coordinator.next_deadline() is None


def test_expiry_in_a_stable_group_starts_a_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.advance(5)
    kit.heartbeat(first)
    kit.advance(5)
    assert (kit.state, kit.member_ids) == (P, [first])
    assert kit.heartbeat(first) is REBALANCING
    assert kit.join(first).answer.generation == 3
    assert kit.heartbeat(second) is UNKNOWN


def test_expiry_in_completing_rebalance_starts_a_rebalance() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    kit.advance(SESSION)
    assert waiting.answer.error is REBALANCING
    assert (kit.state, kit.member_ids) == (P, [second])


def test_expiry_of_the_last_awaited_member_ends_the_join_phase() -> None:
    kit = Kit()
    first, second, third = kit.stable(3)
    waiting = [kit.join(first), kit.join(second)]
    kit.advance(SESSION - 0.001)
    assert not waiting[0].is_answered
    kit.advance(0.001)
    assert [reply.answer.generation for reply in waiting] == [4, 4]
    assert third not in kit.member_ids


def test_expiry_of_one_awaited_member_keeps_the_wait() -> None:
    kit = Kit()
    first, second, third = kit.stable(3)
    waiting = kit.join(first)
    kit.advance(5)
    kit.heartbeat(second)
    kit.advance(5)
    assert kit.member_ids == [first, second]
    assert third not in kit.member_ids
    assert not waiting.is_answered


def test_member_with_a_held_join_does_not_expire() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    waiting = kit.join(first)
    for _ in range(11):
        kit.advance(5)
        kit.heartbeat(second)
    assert not waiting.is_answered
    assert kit.member_ids == [first, second]


def test_held_sync_restarts_the_session_when_answered() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.join(second)
    waiting = kit.sync(second)
    for _ in range(6):
        kit.advance(5)
        kit.heartbeat(first)
    kit.sync(first, {second: b"2"})
    assert waiting.answer.assignment == b"2"
    kit.advance(SESSION - 0.001)
    assert second in kit.member_ids
    kit.advance(0.001)
    assert second not in kit.member_ids


def test_session_restarts_with_the_joins_response() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    kit.join(first)
    kit.advance(9)
    kit.join(second)
    kit.advance(9)
    assert kit.member_ids == [first, second]
    kit.advance(1)
    assert kit.member_ids == []


def test_heartbeats_keep_a_draining_member_alive() -> None:
    kit = Kit()
    first, second = kit.stable(2)
    waiting = kit.join(first)
    for _ in range(4):  # drains for four sessions
        kit.advance(SESSION - 0.001)
        assert kit.heartbeat(second) is REBALANCING
    kit.join(second)
    assert waiting.answer.generation == 3
    assert kit.member_ids == [first, second]


def test_state_first_table_removes_a_draining_member() -> None:
    kit = Kit(config(heartbeat_checks=STATE_FIRST))
    first, second = kit.stable(2)
    kit.join(first)
    kit.advance(5)
    assert kit.heartbeat(second) is REBALANCING
    kit.advance(5)
    assert kit.member_ids == [first]


def test_new_session_timeout_counts_from_the_joins_response() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    kit.join(first, session_timeout=6.0, protocols=protocols("range", metadata=b"new"))
    kit.settle([first])
    kit.advance(6)
    assert kit.member_ids == []


def test_unanswered_first_join_expires_after_five_minutes() -> None:
    kit = Kit()
    endless = {"rebalance_timeout": 1000.0, "session_timeout": 1000.0}
    kit.stable(2, **endless)
    newcomer, waiting = kit.join_new(**endless)
    kit.advance(299.9)
    assert not waiting.is_answered
    kit.advance(0.1)
    assert (waiting.answer.error, waiting.answer.member_id) == (UNKNOWN, "")
    assert newcomer not in kit.member_ids


def test_answered_new_member_has_its_session_timeout() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    for _ in range(40):
        kit.advance(9)
        assert kit.heartbeat(member_id) is OK
    assert kit.now > 300
    kit.advance(SESSION)
    assert kit.member_ids == []


def test_late_timer_expires_in_the_order_of_the_deadlines() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    kit.advance(1)
    kit.heartbeat(first)
    _, waiting = kit.join_new()  # now the first member expires in 10 s, and has 60 s to join
    kit.now += 1000
    kit.coordinator.handle_timer(kit.now)
    assert waiting.answer.generation == 2  # the new member did not expire: the first one did, and that ended the wait
    assert first not in kit.member_ids


def test_late_timer_expires_sessions_before_a_later_join_phase() -> None:
    kit = Kit()
    (first,) = kit.stable(1)
    statics = [kit.join(group_instance_id=instance) for instance in ("i1", "i2")]
    kit.join(first)
    kit.settle([first, *(reply.answer.member_id for reply in statics)])
    waiting = kit.join(first)
    kit.now += 1000
    kit.coordinator.handle_timer(kit.now)
    # Static members may be late for a round, but these expired long before it ended.
    assert [member.member_id for member in waiting.answer.members] == [first]


def test_timer_before_the_next_deadline_does_nothing() -> None:
    kit = Kit()
    (member_id,) = kit.stable(1)
    kit.coordinator.handle_timer(kit.now + SESSION - 0.001)
    assert kit.member_ids == [member_id]
