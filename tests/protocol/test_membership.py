"""The membership machine: its table, the reactions, and the rules of its docstring, without trio or sockets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import pytest

from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    FencedInstanceError,
    GroupAuthorizationError,
    GroupError,
    RetriesExhaustedError,
)
from sarameya.model import Generation
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.machine import Membership, MembershipOptions
from sarameya.protocol.membership.messages import (
    Assign,
    Assigned,
    AssignmentFailed,
    AssignmentMade,
    Command,
    CommitRefused,
    CoordinatorLost,
    Fail,
    FindCoordinator,
    FindFailed,
    FindSucceeded,
    ForgetCoordinator,
    GroupMember,
    HeartbeatAnswered,
    JoinAnswered,
    JoinWanted,
    LeaveAnswered,
    LeaveWanted,
    Left,
    MembershipLost,
    PrepareRebalance,
    RebalanceWanted,
    RequestFailed,
    RequestImpossible,
    RetryScheduled,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    StateChanged,
    Supervise,
    SyncAnswered,
)
from sarameya.protocol.membership.states import (
    HEARTBEATING,
    TRANSITIONS,
    IllegalTransitionError,
    Input,
    Reaction,
    Request,
    State,
    next_state,
    reaction_to,
)

C = TypeVar("C")
BACKOFF = 0.1


class Driver:
    """Feeds events to a machine and keeps its commands. Only the tests move the time."""

    def __init__(self, backoff: Backoff | None = None, **options: Any) -> None:
        defaults = {
            "heartbeat_interval": 3.0, "rebalance_timeout": 60.0, "rebalance_margin": 1.0, "group_instance_id": None,
        }  # fmt: skip
        known = MembershipOptions(group="g", **{**defaults, **options})
        self.machine = Membership(known, backoff or Backoff(BACKOFF, 1.0, jitter=0.0))
        self.now = 100.0
        self.commands: list[Command] = []

    def receive(self, event: Any) -> list[Command]:
        self.commands = self.machine.receive(event, self.now)
        return self.commands

    def wait(self, seconds: float) -> list[Command]:
        self.now += seconds
        self.commands = self.machine.handle_timer(self.now)
        return self.commands

    def get(self, kind: type[C]) -> C:
        found = [c for c in self.commands if isinstance(c, kind)]
        assert len(found) == 1, f"{kind.__name__} in {self.commands}"
        return found[0]

    def joining(self) -> SendJoin:
        self.receive(JoinWanted())
        self.receive(FindSucceeded(self.get(FindCoordinator).token, 7))
        return self.get(SendJoin)

    def joined(self, *, leads: bool = False, generation: int = 5) -> None:
        join = self.joining()
        self.receive(joined(join.token, leads=leads, generation=generation))

    def stable(self, generation: int = 5) -> None:
        self.joined(generation=generation)
        self.receive(SyncAnswered(self.get(SendSync).token, 0, b"assigned"))
        assert self.machine.state is State.STABLE


def joined(token: int, *, leads: bool = False, generation: int = 5) -> JoinAnswered:
    members = (GroupMember("me", None, b"a"), GroupMember("you", None, b"b")) if leads else ()
    return JoinAnswered(token, 0, "me", generation, "range", "me" if leads else "you", members)


def kinds(commands: Iterable[Command]) -> list[str]:
    return [type(c).__name__ for c in commands]


# -- joining ------------------------------------------------------------------------------------------


def test_join_without_a_coordinator_finds_it_first() -> None:
    driver = Driver()
    assert kinds(driver.receive(JoinWanted())) == ["StateChanged", "FindCoordinator"]
    assert driver.machine.state is State.PREPARING_REBALANCE
    assert driver.machine.next_deadline() is None, "nothing to do until the response"


def test_follower_joins_syncs_and_starts_its_session() -> None:
    driver = Driver()
    driver.joined(leads=False, generation=5)
    sync = driver.get(SendSync)
    assert (sync.generation, dict(sync.assignments)) == (Generation(5, "me", "range", False), {})
    driver.receive(SyncAnswered(sync.token, 0, b"assigned"))
    assert driver.get(Assigned) == Assigned(Generation(5, "me", "range", False), b"assigned")
    assert driver.machine.state is State.STABLE


def test_leader_assigns_before_it_syncs() -> None:
    driver = Driver()
    driver.joined(leads=True)
    assign = driver.get(Assign)
    assert [m.member_id for m in assign.members] == ["me", "you"]
    assert "SendSync" not in kinds(driver.commands)
    driver.receive(AssignmentMade(assign.token, {"me": b"1", "you": b"2"}))
    assert dict(driver.get(SendSync).assignments) == {"me": b"1", "you": b"2"}


def test_leader_that_skips_the_assignment_syncs_at_once() -> None:
    """KIP-814: a static leader that returned gets its old assignment back."""
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, 0, "me", 5, "range", "me", (GroupMember("me", "i", b""),), True))
    assert dict(driver.get(SendSync).assignments) == {}


def test_member_heartbeats_while_the_assignor_runs() -> None:
    driver = Driver()
    driver.joined(leads=True)
    assert driver.machine.next_deadline() == pytest.approx(driver.now + 3.0)
    driver.wait(3.0)
    heartbeat = driver.get(SendHeartbeat)
    driver.receive(HeartbeatAnswered(heartbeat.token, 0))
    assert driver.machine.state is State.COMPLETING_REBALANCE


def test_member_id_required_joins_again_with_the_id() -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1"))
    assert driver.get(SendJoin).member_id == "me-1"
    assert driver.machine.state is State.PREPARING_REBALANCE


def test_failing_assignor_is_fatal_with_its_error() -> None:
    driver = Driver()
    driver.joined(leads=True)
    error = RuntimeError("no idea")
    driver.receive(AssignmentFailed(driver.get(Assign).token, error))
    assert driver.get(Fail).error is error
    assert driver.machine.state is State.FENCED


# -- heartbeats ---------------------------------------------------------------------------------------


def test_no_heartbeat_goes_out_while_a_join_or_sync_is_in_flight() -> None:
    driver = Driver()
    driver.joining()
    assert driver.machine.next_deadline() is None
    assert driver.wait(60.0) == []
    driver = Driver()
    driver.joined()
    assert driver.machine.next_deadline() is None
    assert driver.wait(60.0) == []


def test_heartbeats_follow_each_other_by_the_interval() -> None:
    driver = Driver()
    driver.stable()
    start = driver.now
    for _ in range(3):
        deadline = driver.machine.next_deadline()
        assert deadline is not None
        driver.wait(deadline - driver.now)
        driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, 0))
    assert driver.now == pytest.approx(start + 9.0)


def test_rebalance_in_a_heartbeat_keeps_heartbeats_going() -> None:
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert driver.get(PrepareRebalance)
    assert driver.machine.state is State.REVOKING
    driver.wait(3.0)
    heartbeat = driver.get(SendHeartbeat)
    driver.receive(HeartbeatAnswered(heartbeat.token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert "PrepareRebalance" not in kinds(driver.commands), "the session was notified once"
    driver.receive(JoinWanted())
    assert driver.get(SendJoin).member_id == "me"


def test_rebalance_in_a_heartbeat_before_the_sync_is_ignored() -> None:
    """An old coordinator reports a rebalance to every member that is not Stable yet."""
    driver = Driver()
    driver.joined(leads=True)
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert driver.machine.state is State.COMPLETING_REBALANCE


def test_rebalance_deadline_counts_from_the_last_good_heartbeat() -> None:
    driver = Driver(rebalance_timeout=60.0, rebalance_margin=1.0)
    driver.stable()
    driver.wait(3.0)
    sent = driver.now
    heartbeat = driver.get(SendHeartbeat)
    driver.now += 2.0  # the response is slow
    driver.receive(HeartbeatAnswered(heartbeat.token, 0))
    driver.wait(3.0)
    heartbeat = driver.get(SendHeartbeat)
    driver.now += 1.0
    driver.receive(HeartbeatAnswered(heartbeat.token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert driver.get(PrepareRebalance).deadline == pytest.approx(sent + 60.0 - 1.0)


@pytest.mark.parametrize(
    ("code", "kept_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")],
)
def test_lost_membership_ends_session_as_lost_and_rejoins(code: ErrorCode, kept_id: str) -> None:
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, code))
    assert driver.get(MembershipLost)
    assert driver.machine.state is State.LOST
    assert driver.machine.next_deadline() is None, "no heartbeat for a lost membership"
    driver.receive(JoinWanted())
    assert driver.get(SendJoin).member_id == kept_id


def test_membership_lost_while_revoking_notifies_the_session() -> None:
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.REBALANCE_IN_PROGRESS))
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.UNKNOWN_MEMBER_ID))
    assert driver.get(MembershipLost)


# -- the coordinator ----------------------------------------------------------------------------------


def test_failed_coordinator_lookup_is_retried_with_backoff() -> None:
    driver = Driver()
    driver.receive(JoinWanted())
    delays = []
    for _ in range(4):
        driver.receive(FindFailed(driver.get(FindCoordinator).token, ErrorCode.COORDINATOR_NOT_AVAILABLE, "not yet"))
        retry = driver.get(RetryScheduled)
        delays.append(retry.delay)
        assert driver.machine.next_deadline() == pytest.approx(driver.now + retry.delay)
        driver.wait(retry.delay)
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_second_coordinator_response_is_ignored() -> None:
    driver = Driver()
    driver.receive(JoinWanted())
    token = driver.get(FindCoordinator).token
    driver.receive(FindSucceeded(token, 7))
    driver.receive(FindSucceeded(token, 8))
    assert driver.machine.coordinator == 7


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_moved_coordinator_is_found_and_the_join_resent(code: ErrorCode) -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, code))
    assert driver.get(ForgetCoordinator).node_id == 7
    driver.receive(FindSucceeded(driver.get(FindCoordinator).token, 8))
    assert "SendJoin" not in kinds(driver.commands)
    assert driver.machine.next_deadline() == pytest.approx(driver.now + BACKOFF)
    driver.wait(BACKOFF)
    assert driver.get(SendJoin)


def test_lost_connection_during_sync_resends_the_sync() -> None:
    driver = Driver()
    driver.joined()
    driver.receive(RequestFailed(driver.get(SendSync).token, "connection reset"))
    driver.receive(FindSucceeded(driver.get(FindCoordinator).token, 7))
    driver.wait(BACKOFF)
    assert driver.get(SendSync).generation.id == 5


def test_lost_connection_during_heartbeat_keeps_the_session() -> None:
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(RequestFailed(driver.get(SendHeartbeat).token, "no answer"))
    assert "PrepareRebalance" not in kinds(driver.commands)
    driver.receive(FindSucceeded(driver.get(FindCoordinator).token, 9))
    driver.wait(BACKOFF)
    assert driver.get(SendHeartbeat)
    assert driver.machine.state is State.STABLE


def test_loading_coordinator_is_retried_without_a_lookup() -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert driver.machine.coordinator == 7
    driver.wait(BACKOFF)
    assert driver.get(SendJoin)


def test_coordinator_lost_by_a_commit_is_looked_up() -> None:
    driver = Driver()
    driver.stable()
    assert driver.receive(CoordinatorLost(3, "an old one")) == []
    driver.receive(CoordinatorLost(7, "this one"))
    assert driver.get(FindCoordinator)


# -- late and repeated responses ----------------------------------------------------------------------


def test_response_with_an_old_token_is_ignored() -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(RequestFailed(join.token, "timed out"))
    before = driver.machine.state
    assert driver.receive(joined(join.token)) == []
    assert driver.machine.state is before
    assert driver.machine.generation is None


def test_repeated_sync_response_starts_one_session() -> None:
    driver = Driver()
    driver.joined()
    response = SyncAnswered(driver.get(SendSync).token, 0, b"")
    driver.receive(response)
    assert driver.get(Assigned)
    assert driver.receive(response) == []


def test_assignment_of_an_earlier_round_is_not_sent() -> None:
    driver = Driver()
    driver.joined(leads=True)
    assign = driver.get(Assign)
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.UNKNOWN_MEMBER_ID))
    driver.receive(AssignmentMade(assign.token, {"me": b"old"}))
    assert "SendSync" not in kinds(driver.commands)


def test_wanted_rebalance_ends_only_a_stable_session() -> None:
    driver = Driver()
    driver.joined()
    sync = driver.get(SendSync)
    assert driver.receive(RebalanceWanted("partitions were added")) == [], "a rebalance is under way"
    driver.receive(SyncAnswered(sync.token, 0, b""))
    driver.receive(RebalanceWanted("partitions were added"))
    assert driver.get(PrepareRebalance)


def test_repeated_setbacks_back_off_after_the_first() -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, ErrorCode.MEMBER_ID_REQUIRED, member_id="a"))
    join = driver.get(SendJoin)  # at once
    for _ in range(3):
        driver.receive(JoinAnswered(join.token, ErrorCode.UNKNOWN_MEMBER_ID))
        driver.receive(JoinWanted())  # no session has to stop first
        assert "SendJoin" not in kinds(driver.commands)
        driver.wait(driver.get(RetryScheduled).delay)
        join = driver.get(SendJoin)
    assert driver.machine.member_id == ""


# -- owned partitions during a rebalance (KIP-429) ----------------------------------------------------


OWNED = {"orders": (0, 2)}


def test_join_carries_owned_partitions_and_their_generation() -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.receive(RebalanceWanted("more topics"))
    driver.receive(JoinWanted("more topics", OWNED))
    join = driver.get(SendJoin)
    assert (join.owned, join.owned_since, join.reason) == (OWNED, 5, "more topics")


def test_join_after_a_failed_sync_keeps_the_owned_generation() -> None:
    """Generation 6 was joined and never synced: its assignment is not owned, and that of generation 5 still is."""
    driver = Driver()
    driver.stable(generation=5)
    driver.receive(JoinWanted("again", OWNED))
    driver.receive(joined(driver.get(SendJoin).token, generation=6))
    driver.receive(SyncAnswered(driver.get(SendSync).token, ErrorCode.REBALANCE_IN_PROGRESS))
    driver.wait(BACKOFF)
    join = driver.get(SendJoin)
    assert (join.owned, join.owned_since) == (OWNED, 5)


def test_join_without_owned_partitions_has_no_generation() -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.receive(JoinWanted())
    assert driver.get(SendJoin).owned_since == -1


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("phase", ["join", "sync"])
def test_membership_lost_during_a_rejoin_owns_nothing(phase: str, code: ErrorCode) -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.receive(JoinWanted("again", OWNED))
    if phase == "join":
        driver.receive(JoinAnswered(driver.get(SendJoin).token, code))
    else:
        driver.receive(joined(driver.get(SendJoin).token, generation=6))
        driver.receive(SyncAnswered(driver.get(SendSync).token, code))
    assert driver.get(MembershipLost)
    assert "SendJoin" not in kinds(driver.commands), "the session has to stop first"
    driver.receive(JoinWanted("too late", OWNED))
    join = driver.get(SendJoin)
    assert (join.owned, join.owned_since) == ({}, -1)


def test_commit_refused_during_a_pending_join_is_ignored() -> None:
    driver = Driver()
    driver.stable(generation=5)
    driver.receive(JoinWanted("again", OWNED))
    assert driver.receive(CommitRefused(5, ErrorCode.ILLEGAL_GENERATION)) == []


def test_leader_of_a_kept_assignment_only_supervises() -> None:
    """A static leader that comes back within its session (KIP-814)."""
    driver = Driver(group_instance_id="i-1")
    response = joined(driver.joining().token, leads=True)
    driver.receive(msgspec.structs.replace(response, skip_assignment=True))
    assert driver.get(Supervise).members == response.members
    assert driver.get(SendSync).assignments == {}
    assert "Assign" not in kinds(driver.commands)


# -- bounded retries ----------------------------------------------------------------------------------


def test_too_many_attempts_are_fatal() -> None:
    driver = Driver(Backoff(BACKOFF, 1.0, jitter=0.0, max_attempts=2))
    driver.receive(JoinWanted())
    for _ in range(2):
        driver.receive(FindFailed(driver.get(FindCoordinator).token, 0, "nobody answers"))
        driver.wait(driver.get(RetryScheduled).delay)
    driver.receive(FindFailed(driver.get(FindCoordinator).token, 0, "nobody answers"))
    error = driver.get(Fail).error
    assert isinstance(error, RetriesExhaustedError)
    assert "find_coordinator of group g: failed after 3 attempts in 0.3 s; last: nobody answers" in str(error)
    assert driver.machine.state is State.FENCED


def test_retries_for_too_long_are_fatal() -> None:
    driver = Driver(Backoff(1.0, 1.0, jitter=0.0, max_seconds=3.0))
    join = driver.joining()
    for _ in range(3):
        driver.receive(JoinAnswered(join.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        driver.wait(1.0)
        join = driver.get(SendJoin)
    driver.receive(JoinAnswered(join.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert isinstance(driver.get(Fail).error, RetriesExhaustedError)


def test_retry_limits_count_each_failure_separately() -> None:
    driver = Driver(Backoff(BACKOFF, 1.0, jitter=0.0, max_attempts=1))
    driver.stable()
    for _ in range(5):
        driver.wait(3.0)
        driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        driver.wait(driver.get(RetryScheduled).delay)
        driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, 0))
    assert driver.machine.state is State.STABLE


def test_member_id_in_a_refusal_is_not_adopted() -> None:
    """A former coordinator may return a member id that the new coordinator has never stored."""
    driver = Driver(group_instance_id="i-1")
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, ErrorCode.NOT_COORDINATOR, member_id="never-stored"))
    assert driver.machine.member_id == ""


def test_request_that_can_never_be_sent_is_fatal() -> None:
    driver = Driver()
    error = RuntimeError("no version in common")
    driver.receive(RequestImpossible(driver.joining().token, error))
    assert driver.get(Fail).error is error


def test_fenced_member_does_not_join_again() -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, ErrorCode.FENCED_INSTANCE_ID))
    assert driver.receive(JoinWanted()) == []


# -- rejoin, commits, leave -----------------------------------------------------------------------------


def test_sync_with_rebalance_rejoins_with_its_id() -> None:
    driver = Driver()
    driver.joined()
    driver.receive(SyncAnswered(driver.get(SendSync).token, ErrorCode.REBALANCE_IN_PROGRESS))
    assert driver.machine.state is State.PREPARING_REBALANCE
    driver.wait(BACKOFF)
    assert driver.get(SendJoin).member_id == "me"


def test_member_rejoins_when_its_session_ends() -> None:
    driver = Driver()
    driver.stable()
    driver.receive(JoinWanted())
    assert driver.get(SendJoin).member_id == "me"


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_commit_refused_in_this_generation_loses_the_session(code: ErrorCode) -> None:
    driver = Driver()
    driver.stable(generation=5)
    assert driver.receive(CommitRefused(4, code)) == [], "a commit of another generation is ignored"
    driver.receive(CommitRefused(5, code))
    assert driver.get(MembershipLost)


def test_leave_is_sent_and_answered() -> None:
    driver = Driver()
    driver.stable()
    driver.receive(LeaveWanted("closing"))
    leave = driver.get(SendLeave)
    assert (leave.member_id, leave.reason) == ("me", "closing")
    driver.receive(LeaveAnswered(leave.token, 0))
    assert driver.get(Left)
    assert (driver.machine.state, driver.machine.member_id) == (State.UNJOINED, "")


def test_leave_overtakes_a_join_that_is_held() -> None:
    driver = Driver()
    driver.stable()
    driver.receive(JoinWanted())
    join = driver.get(SendJoin)
    driver.receive(LeaveWanted("closing"))
    assert driver.get(SendLeave).member_id == "me"
    assert driver.receive(joined(join.token)) == [], "the response to the join comes too late"


@pytest.mark.parametrize("stage", ["never joined", "static", "lost"])
def test_leave_that_needs_no_request_is_immediate(stage: str) -> None:
    driver = Driver(group_instance_id="i-1" if stage == "static" else None)
    if stage == "never joined":
        driver.receive(JoinWanted())
    else:
        driver.stable()
    if stage == "lost":
        driver.receive(CommitRefused(5, ErrorCode.UNKNOWN_MEMBER_ID))
    driver.receive(LeaveWanted("closing"))
    assert driver.get(Left)
    assert "SendLeave" not in kinds(driver.commands)


def test_leave_of_a_fenced_static_member_is_immediate() -> None:
    driver = Driver(group_instance_id="i-1")
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.FENCED_INSTANCE_ID))
    driver.receive(LeaveWanted("closing"))
    assert driver.get(Left)
    assert "SendLeave" not in kinds(driver.commands)


def test_failed_member_leaves_once_it_has_stopped() -> None:
    driver = Driver()
    driver.joined(leads=True)
    driver.receive(AssignmentFailed(driver.get(Assign).token, RuntimeError("no idea")))
    assert "SendLeave" not in kinds(driver.commands), "the session has to stop first"
    assert driver.machine.next_deadline() is None
    driver.receive(LeaveWanted("no idea"))
    leave = driver.get(SendLeave)
    assert (leave.member_id, leave.reason) == ("me", "no idea")
    driver.receive(LeaveAnswered(leave.token, 0))
    assert driver.get(Left)


def test_member_out_of_retries_finds_coordinator_to_leave() -> None:
    driver = Driver(Backoff(BACKOFF, 1.0, jitter=0.0, max_attempts=0))
    driver.stable()
    driver.receive(CoordinatorLost(7, "gone"))
    driver.receive(FindFailed(driver.get(FindCoordinator).token, 0, "nobody answers"))
    assert isinstance(driver.get(Fail).error, RetriesExhaustedError)
    driver.receive(LeaveWanted("gave up"))
    token = driver.get(FindCoordinator).token
    driver.receive(FindFailed(token, 0, "nobody answers"))
    assert driver.get(Fail), "no coordinator to send the leave to"
    assert driver.machine.state is State.FENCED


def test_refused_leave_fails_the_member() -> None:
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    driver.receive(LeaveWanted("closing"))
    driver.receive(LeaveAnswered(driver.get(SendLeave).token, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert driver.get(Fail)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, GroupError),
        (ErrorCode.INVALID_SESSION_TIMEOUT, GroupError),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupError),
        (999, GroupError),
    ],
)
def test_fatal_code_in_a_join_fails_and_sends_no_more(code: int, kind: type[Exception]) -> None:
    driver = Driver()
    join = driver.joining()
    driver.receive(JoinAnswered(join.token, code))
    error = driver.get(Fail).error
    assert type(error) is kind
    assert str(int(code)) in str(error)
    assert driver.machine.state is State.FENCED
    assert driver.machine.next_deadline() is None


def test_fatal_code_in_a_heartbeat_fails_and_owns_nothing() -> None:
    driver = Driver()
    driver.stable()
    driver.wait(3.0)
    driver.receive(HeartbeatAnswered(driver.get(SendHeartbeat).token, ErrorCode.FENCED_INSTANCE_ID))
    assert driver.get(Fail)
    assert driver.machine.generation is None, "nothing is owned any more"


def test_unauthorised_coordinator_lookup_is_fatal() -> None:
    driver = Driver()
    driver.receive(JoinWanted())
    token = driver.get(FindCoordinator).token
    driver.receive(FindFailed(token, ErrorCode.GROUP_AUTHORIZATION_FAILED, ""))
    assert isinstance(driver.get(Fail).error, GroupAuthorizationError)


# -- the table itself -----------------------------------------------------------------------------------


def test_every_state_has_a_row_and_every_target_is_a_state() -> None:
    assert set(TRANSITIONS) == set(State)
    for row in TRANSITIONS.values():
        assert all(isinstance(by, Input) and isinstance(to, State) for by, to in row.items())


def test_leave_is_possible_from_every_state() -> None:
    assert all(Input.LEAVE_WANTED in row for row in TRANSITIONS.values())


def test_input_without_a_row_raises() -> None:
    with pytest.raises(IllegalTransitionError, match="SYNCED in LEAVING"):
        next_state(State.LEAVING, Input.SYNCED, "")


def test_every_state_that_heartbeats_can_lose_the_membership() -> None:
    for state in HEARTBEATING:
        assert Input.MEMBER_FORGOTTEN in TRANSITIONS[state]
        assert Input.GENERATION_DROPPED in TRANSITIONS[state]
        assert Input.REFUSED in TRANSITIONS[state]


def test_state_change_has_its_cause() -> None:
    driver = Driver()
    driver.receive(JoinWanted("the member starts"))
    assert driver.get(StateChanged) == StateChanged(
        "UNJOINED", "PREPARING_REBALANCE", "the member starts", "join_wanted"
    )


REACTIONS = [
    (Request.JOIN, ErrorCode.UNKNOWN_MEMBER_ID, Reaction.FORGET_MEMBER),
    (Request.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID, Reaction.FORGET_MEMBER),
    (Request.SYNC, ErrorCode.ILLEGAL_GENERATION, Reaction.DROP_GENERATION),
    (Request.HEARTBEAT, ErrorCode.ILLEGAL_GENERATION, Reaction.DROP_GENERATION),
    (Request.JOIN, ErrorCode.MEMBER_ID_REQUIRED, Reaction.ADOPT_MEMBER_ID),
    (Request.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS, Reaction.REBALANCE),
    (Request.JOIN, ErrorCode.REBALANCE_IN_PROGRESS, Reaction.REBALANCE),
    (Request.SYNC, ErrorCode.REBALANCE_IN_PROGRESS, Reaction.REBALANCE),
    (Request.JOIN, ErrorCode.NOT_COORDINATOR, Reaction.FIND_COORDINATOR),
    (Request.COMMIT, ErrorCode.COORDINATOR_NOT_AVAILABLE, Reaction.FIND_COORDINATOR),
    (Request.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, Reaction.RETRY),
    (Request.JOIN, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.RETRY),
    (Request.COMMIT, ErrorCode.REBALANCE_IN_PROGRESS, Reaction.RETRY),
    (Request.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT, Reaction.RETRY),
    (Request.COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE, Reaction.RAISE),
    (Request.COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Reaction.RAISE),
    (Request.JOIN, ErrorCode.FENCED_INSTANCE_ID, Reaction.FATAL),
    (Request.HEARTBEAT, ErrorCode.GROUP_AUTHORIZATION_FAILED, Reaction.FATAL),
    (Request.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Reaction.FATAL),
    (Request.JOIN, ErrorCode.INVALID_SESSION_TIMEOUT, Reaction.FATAL),
    (Request.JOIN, ErrorCode.GROUP_MAX_SIZE_REACHED, Reaction.FATAL),
    (Request.HEARTBEAT, ErrorCode.MEMBER_ID_REQUIRED, Reaction.FATAL),
    (Request.JOIN, 32_000, Reaction.FATAL),
    (Request.LEAVE, ErrorCode.UNKNOWN_MEMBER_ID, Reaction.PROCEED),
]


@pytest.mark.parametrize(("request_", "code", "reaction"), REACTIONS)
def test_reaction_of_the_design_table(request_: Request, code: int, reaction: Reaction) -> None:
    assert reaction_to(request_, code) is reaction
