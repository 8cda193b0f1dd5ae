"""The membership under a coordinator that refuses repeatedly, and join requests of a session that come too late."""

from __future__ import annotations

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.errors import RetriesExhaustedError
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.messages import (
    Fail,
    HeartbeatAnswered,
    JoinAnswered,
    JoinWanted,
    RetryScheduled,
    SendHeartbeat,
    SendJoin,
    SendSync,
    SyncAnswered,
)
from sarameya.protocol.membership.states import State
from tests.protocol.test_membership import Driver, kinds


def refuse_syncs(driver: Driver, code: ErrorCode, times: int) -> list[float]:
    """Join and refuse the sync, `times` times or until the member fails. Return the backoffs before each rejoin."""
    delays: list[float] = []
    for generation in range(1, times + 1):
        join = driver.joining() if generation == 1 else driver.get(SendJoin)
        driver.receive(JoinAnswered(join.token, 0, "a", generation, "range", leader="b"))
        driver.receive(SyncAnswered(driver.get(SendSync).token, code))
        if driver.machine.state is State.LOST:
            driver.receive(JoinWanted())  # no session has to stop first
        if "Fail" in kinds(driver.commands):
            break
        if "RetryScheduled" in kinds(driver.commands):
            delays.append(driver.get(RetryScheduled).delay)
            driver.wait(delays[-1])
    return delays


def test_repeatedly_lost_memberships_back_off_within_bounds() -> None:
    driver = Driver(Backoff(0.1, 10.0, jitter=0.0, max_attempts=6))
    delays = refuse_syncs(driver, ErrorCode.ILLEGAL_GENERATION, 20)
    assert isinstance(driver.get(Fail).error, RetriesExhaustedError)
    assert delays == sorted(delays)
    assert delays[-1] > 10 * delays[0]


def test_overtaken_rounds_back_off_without_counting() -> None:
    """Members that join one after the other while the leader is slow are no failure of the cluster."""
    driver = Driver(Backoff(0.1, 1.0, jitter=0.0, max_attempts=3, max_seconds=5.0))
    delays = refuse_syncs(driver, ErrorCode.REBALANCE_IN_PROGRESS, 20)
    assert len(delays) == 20
    assert delays[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])
    driver.receive(JoinAnswered(driver.get(SendJoin).token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert driver.get(RetryScheduled).attempt == 1, "the first failure"


def test_synced_round_resets_the_backoff() -> None:
    driver = Driver()
    refuse_syncs(driver, ErrorCode.REBALANCE_IN_PROGRESS, 5)
    driver.receive(JoinAnswered(driver.get(SendJoin).token, 0, "a", 6, "range", leader="b"))
    driver.receive(SyncAnswered(driver.get(SendSync).token, 0))
    driver.receive(JoinWanted())
    driver.receive(JoinAnswered(driver.get(SendJoin).token, 0, "a", 7, "range", leader="b"))
    driver.receive(SyncAnswered(driver.get(SendSync).token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert driver.get(RetryScheduled).delay == pytest.approx(0.1)


def test_requested_member_id_is_used_at_once() -> None:
    """The id expires with the session timeout (KIP-394), which may be shorter than a backoff."""
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
    assert kinds(driver.commands) == ["RetryScheduled"], "a second id in place of the first one is a setback"


def test_join_wanted_by_a_lost_session_is_ignored() -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.ILLEGAL_GENERATION))
    assert driver.receive(JoinWanted("partitions were revoked", {"orders": (0,)}, generation=5)) == []
    assert driver.machine.state is State.LOST
    driver.receive(JoinWanted("the session is over"))
    assert driver.get(SendJoin).owned == {}


def test_join_wanted_by_an_old_generation_is_ignored() -> None:
    driver = Driver()
    driver.stable(generation=6)
    assert driver.receive(JoinWanted("a rebalance that is over", {"orders": (0,)}, generation=5)) == []
    assert driver.machine.state is State.STABLE
    driver.receive(JoinWanted("partitions were revoked", {"orders": (0,)}, generation=6))
    assert driver.get(SendJoin).owned == {"orders": (0,)}
