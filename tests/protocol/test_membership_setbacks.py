"""The membership under a coordinator that refuses again and again, and wishes that come too late."""

from __future__ import annotations

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.errors import RetriesExhaustedError
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership_messages import (
    Fail,
    HeartbeatAnswered,
    JoinAnswered,
    JoinWanted,
    RetryScheduled,
    SendHeartbeat,
    SendJoin,
    SyncAnswered,
)
from sarameya.protocol.membership_states import State
from tests.protocol.test_membership import Driver, kinds


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS])
def test_syncs_refused_again_and_again_are_met_with_growing_backoff_and_bounds(code: ErrorCode) -> None:
    driver = Driver()
    driver.machine._backoff = Backoff(0.1, 10.0, jitter=0.0, max_attempts=6)
    seen: list[float] = []
    for generation in range(1, 20):
        join = driver.joining() if generation == 1 else driver.get(SendJoin)
        driver.receive(JoinAnswered(join.token, 0, "a", generation, "range", leader="b"))
        driver.receive(SyncAnswered(driver.machine._in_flight.token, code))  # type: ignore[union-attr]
        if driver.machine.state is State.LOST:
            driver.receive(JoinWanted())  # nothing runs that would have to end first
        if "Fail" in kinds(driver.commands):
            break
        if "RetryScheduled" in kinds(driver.commands):
            seen.append(driver.get(RetryScheduled).delay)
            driver.wait(seen[-1])
    assert isinstance(driver.get(Fail).error, RetriesExhaustedError)
    assert seen == sorted(seen)
    assert seen[-1] > 10 * seen[0]


def test_member_id_that_was_asked_for_is_joined_with_at_once_whatever_came_before() -> None:
    """It expires with the session timeout (KIP-394), which a backoff may be longer than."""
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.UNKNOWN_MEMBER_ID))
    driver.receive(JoinWanted())
    join = driver.get(SendJoin)
    assert join.member_id == ""
    driver.receive(JoinAnswered(join.token, ErrorCode.MEMBER_ID_REQUIRED, member_id="b"))
    join = driver.get(SendJoin)
    assert join.member_id == "b"
    driver.receive(JoinAnswered(join.token, ErrorCode.MEMBER_ID_REQUIRED, member_id="c"))
    assert kinds(driver.commands) == ["RetryScheduled"], "one in place of the one that it gave us is a setback"


def test_wish_of_a_session_that_does_not_know_yet_that_it_is_lost_is_not_heard() -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.ILLEGAL_GENERATION))
    assert driver.receive(JoinWanted("partitions were given up", {"orders": (0,)}, generation=5)) == []
    assert driver.machine.state is State.LOST
    driver.receive(JoinWanted("the session is over"))
    assert driver.get(SendJoin).owned == {}


def test_wish_of_a_generation_that_is_over_costs_no_rebalance() -> None:
    driver = Driver()
    driver.stable(generation=6)
    assert driver.receive(JoinWanted("a rebalance that is over", {"orders": (0,)}, generation=5)) == []
    assert driver.machine.state is State.STABLE
    driver.receive(JoinWanted("partitions were given up", {"orders": (0,)}, generation=6))
    assert driver.get(SendJoin).owned == {"orders": (0,)}
