"""Requests without a response: joins and syncs that the coordinator holds, or that are lost, and leaves."""

from __future__ import annotations

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.messages import (
    CoordinatorLost,
    FindCoordinator,
    FindSucceeded,
    ForgetCoordinator,
    HeartbeatAnswered,
    JoinAnswered,
    JoinWanted,
    LeaveAnswered,
    LeaveWanted,
    MembershipLost,
    PrepareRebalance,
    RequestFailed,
    RetryScheduled,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    SyncAnswered,
    Unanswered,
)
from sarameya.protocol.membership.states import State
from tests.protocol.test_membership import Driver, joined, kinds

OWNED = {"orders": (0, 2)}
RESPONSE_TIMEOUT = 5.0


def let_time_out(driver: Driver, kind: type[SendJoin | SendSync]) -> None:
    token = driver.get(kind).token
    driver.now += RESPONSE_TIMEOUT
    driver.receive(Unanswered(token, "no answer"))


def find_coordinator(driver: Driver) -> None:
    driver.receive(FindSucceeded(driver.get(FindCoordinator).token, 7))


def answer_heartbeat(driver: Driver) -> None:
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, 0))


def test_unanswered_sync_is_resent_at_once() -> None:
    driver = Driver()
    driver.joined()
    let_time_out(driver, SendSync)
    assert driver.get(ForgetCoordinator).node_id == 7, "the coordinator may have moved"
    assert driver.get(RetryScheduled).delay == 0
    find_coordinator(driver)
    assert driver.get(SendSync).generation.id == 5
    driver.receive(SyncAnswered(driver.get(SendSync).token, 0, b"assigned"))
    assert driver.machine.state is State.STABLE


def test_unanswered_join_is_resent_with_owned_partitions() -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.receive(JoinWanted("again", OWNED))
    let_time_out(driver, SendJoin)
    find_coordinator(driver)
    join = driver.get(SendJoin)
    assert (join.member_id, join.owned, join.owned_since) == ("me", OWNED, 5)
    driver.receive(joined(join.token, generation=6))
    assert driver.get(SendSync)


def test_removed_member_learns_it_from_its_resent_request() -> None:
    driver = Driver()
    driver.joined()
    let_time_out(driver, SendSync)
    find_coordinator(driver)
    driver.receive(SyncAnswered(driver.get(SendSync).token, ErrorCode.UNKNOWN_MEMBER_ID))
    assert driver.get(MembershipLost)


def test_sync_held_for_a_slow_leader_counts_as_no_failure() -> None:
    driver = Driver(Backoff(0.1, 1.0, jitter=0.0, max_attempts=1, max_seconds=1.0), rebalance_timeout=60.0)
    driver.joined()
    for _ in range(11):
        let_time_out(driver, SendSync)
        find_coordinator(driver)
    driver.receive(SyncAnswered(driver.get(SendSync).token, 0, b"assigned"))
    assert driver.machine.state is State.STABLE


def test_join_without_owned_partitions_is_resent_forever() -> None:
    """The group waits for the longest rebalance timeout of all its members, and this member's may be shorter."""
    driver = Driver(Backoff(0.1, 1.0, jitter=0.0, max_attempts=0), rebalance_timeout=60.0)
    token = driver.joining().token
    for _ in range(3):
        driver.now += 65.0
        driver.receive(Unanswered(token, "no answer"))
        find_coordinator(driver)
        token = driver.get(SendJoin).token


def test_silences_count_until_a_response_or_a_failure() -> None:
    driver = Driver()
    driver.joined()
    for silences in range(3):
        assert driver.get(SendSync).silences == silences
        let_time_out(driver, SendSync)
        find_coordinator(driver)
    driver.receive(RequestFailed(driver.get(SendSync).token, "connection lost"))
    find_coordinator(driver)
    answer_heartbeat(driver)  # sent during the backoff
    driver.wait(1.0)
    assert driver.get(SendSync).silences == 0


def test_any_response_ends_the_silence() -> None:
    driver = Driver(Backoff(0.1, 1.0, jitter=0.0, max_attempts=0), rebalance_timeout=12.0)
    driver.stable(generation=5)
    for generation in range(6, 12):
        driver.receive(JoinWanted("again", OWNED))
        let_time_out(driver, SendJoin)
        find_coordinator(driver)
        driver.receive(joined(driver.get(SendJoin).token, generation=generation))
        let_time_out(driver, SendSync)
        find_coordinator(driver)
        driver.receive(SyncAnswered(driver.get(SendSync).token, 0))
        assert driver.machine.state is State.STABLE
        answer_heartbeat(driver)


def test_silence_of_an_old_request_is_ignored() -> None:
    driver = Driver()
    driver.joined()
    token = driver.get(SendSync).token
    driver.receive(SyncAnswered(token, 0, b"assigned"))
    assert driver.receive(Unanswered(token, "no answer")) == []


@pytest.mark.parametrize("takes", [0.5, 8.0])
def test_rebalance_deadline_counts_from_the_sending_of_the_sync(takes: float) -> None:
    """The response may have been delayed for long, and the group may have started another round meanwhile."""
    driver = Driver(rebalance_timeout=60.0, rebalance_margin=1.0)
    driver.joined()
    sent = driver.now
    driver.now += takes
    driver.receive(SyncAnswered(driver.get(SendSync).token, 0, b"assigned"))
    if "SendHeartbeat" not in kinds(driver.commands):
        driver.wait(3.0 - takes)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert driver.get(PrepareRebalance).deadline == pytest.approx(sent + 60.0 - 1.0)


def test_join_does_not_wait_for_the_leaves_response() -> None:
    driver = Driver()
    driver.stable()
    driver.receive(LeaveWanted("unsubscribed"))
    leave = driver.get(SendLeave)
    driver.receive(JoinWanted("subscribed again"))
    join = driver.get(SendJoin)
    assert (join.member_id, join.owned) == ("me", {}), "the coordinator decides whether it is still a member"
    assert driver.receive(LeaveAnswered(leave.token, 0)) == [], "nothing waits for it"
    driver.receive(JoinAnswered(join.token, ErrorCode.UNKNOWN_MEMBER_ID))
    driver.get(MembershipLost)
    driver.receive(JoinWanted("lost"))
    assert driver.get(SendJoin).member_id == ""


def test_join_uses_the_coordinator_that_a_leave_looks_up() -> None:
    driver = Driver()
    driver.stable()
    driver.receive(CoordinatorLost(7, "gone"))
    driver.receive(LeaveWanted("unsubscribed"))
    token = driver.get(FindCoordinator).token
    assert "FindCoordinator" not in kinds(driver.receive(JoinWanted("subscribed again"))), "the lookup is pending"
    driver.receive(FindSucceeded(token, 8))
    assert driver.get(SendJoin).member_id == "me"
