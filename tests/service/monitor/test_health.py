"""Rules for a ready and live service, and the reasons if it is not, with fake members."""

from __future__ import annotations

import attrs
import pytest

from sarameya.service.monitor.health import SILENT_AFTER, Health, health
from sarameya.service.monitor.members import Restart, WorkerStatus
from sarameya.service.monitor.progress_tracker import ProgressTracker
from sarameya.status import Activity, OverdueHandler, PartitionStatus
from tests.service.monitor.kit import ORDERS_0, ORDERS_1, partition, worker_status

STALL = 60.0


class Watch:
    """Checks members each second, as a status board does."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.progress = ProgressTracker()

    def update(self, *members: WorkerStatus, seconds: int = 0, stopping: str = "") -> Health:
        """Return the health after the members have been in this state for `seconds`."""
        for _ in range(seconds + 1):
            self.progress.update([one.snapshot for one in members if one.snapshot is not None], self.now)
            self.now += 1
        self.now -= 1
        return health(members, self.progress, self.now, stall_after=STALL, stopping=stopping)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def ready(explained: tuple[str, ...] = ()) -> Health:
    return Health((), (), explained)


def test_idle_topic_stays_ready(watch: Watch) -> None:
    assert watch.update(worker_status(partition()), seconds=1000) == ready()


@pytest.mark.parametrize("marked", [-1, 3])
def test_handler_with_unmarked_messages_may_be_idle(watch: Watch, marked: int) -> None:
    assert watch.update(worker_status(partition(marked=marked)), seconds=1000) == ready()


@pytest.mark.parametrize("marked", [-1, 9, 10])
def test_hanging_handler_is_named_with_its_message(watch: Watch, marked: int) -> None:
    for lag in (0, 90):
        member = worker_status(partition(Activity.IN_HANDLER, seconds=61.0, lag=lag, marked=marked))
        assert watch.update(member, seconds=60).is_ready
        assert watch.update(member, seconds=1).not_ready == ("orders-0: no progress for 61 s: in handler for 61 s",)
        watch = Watch()


@pytest.mark.parametrize("moves", ["position", "marked", "committed", "landed", "records_total"])
def test_slow_handler_is_ready_while_any_number_grows(watch: Watch, moves: str) -> None:
    for minute in range(10):
        member = worker_status(partition(Activity.IN_HANDLER, seconds=60.0 * minute, lag=90, **{moves: 100 + minute}))
        assert watch.update(member, seconds=58).is_ready, minute
        watch.now += 1


def test_frozen_broker_is_detected_after_its_last_response(watch: Watch) -> None:
    """The log may have further records, even if everything was read before the last response."""
    watch.update(worker_status(partition()), seconds=1000)
    for second in range(61):
        assert watch.update(worker_status(partition(asked_seconds=float(second)))).is_ready
        watch.now += 1
    why = "no answer of broker 1"
    for attempts, tries in ((0, "attempt 3,"), (5, "attempt 3 of 5,")):
        tried = {"attempt": 3, "attempts": attempts, "seconds": 31.0, "reason": why, "asked_seconds": 61.0}
        assert watch.update(worker_status(partition(Activity.RETRYING, **tried))).not_ready == (
            f"orders-0: no progress for 61 s: retrying, {tries} for 31 s: {why}",
        )


def test_waiting_partitions_are_explained_before_they_stall(watch: Watch) -> None:
    stuck = [partition(Activity.BACKPRESSURED, seconds=12.0), partition(Activity.STARTING, of=ORDERS_1)]
    assert watch.update(worker_status(*stuck), seconds=12) == ready(
        ("orders-0: backpressured for 12 s", "orders-1: starting")
    )


def test_paused_partition_is_ready_and_restarts_its_time(watch: Watch) -> None:
    paused = partition(Activity.PAUSED, seconds=1000.0, lag=90)
    assert watch.update(worker_status(paused), seconds=1000) == ready(("orders-0: paused for 1000 s",))
    resumed = worker_status(partition(Activity.FETCHING, lag=90))
    assert watch.update(resumed, seconds=60) == ready()
    assert not watch.update(resumed, seconds=1).is_ready


def test_each_stalled_partition_has_a_line(watch: Watch) -> None:
    rows = [partition(Activity.LANDING, seconds=99.0), partition(Activity.IN_HANDLER, of=ORDERS_1, seconds=70.0)]
    assert watch.update(worker_status(*rows), seconds=61).not_ready == (
        "orders-0: no progress for 61 s: landing for 99 s",
        "orders-1: no progress for 61 s: in handler for 70 s",
    )


def test_partition_that_never_starts_is_not_ready(watch: Watch) -> None:
    nothing = {"position": -1, "high_water_mark": -1, "lag": -1, "marked": -1, "asked_seconds": -1.0}
    starting = PartitionStatus(partition=ORDERS_1, activity=Activity.STARTING)
    assert starting == partition(Activity.STARTING, of=ORDERS_1, **nothing)
    assert watch.update(worker_status(starting), seconds=60) == ready(("orders-1: starting",))
    assert watch.update(worker_status(starting), seconds=1).not_ready == ("orders-1: no progress for 61 s: starting",)


def test_partition_assigned_again_restarts_its_time(watch: Watch) -> None:
    hung = worker_status(partition(Activity.IN_HANDLER))
    watch.update(hung, seconds=61)
    watch.update(worker_status())
    assert watch.update(hung, seconds=60).is_ready


def test_member_in_its_first_join_is_not_ready(watch: Watch) -> None:
    found = watch.update(worker_status(state="PREPARING_REBALANCE", seconds=2.0))
    assert found.not_ready == ("no member of g: preparing rebalance for 2 s",)
    assert not found.not_alive


def test_rebalance_has_a_time_limit_across_retries(watch: Watch) -> None:
    watch.update(worker_status(partition()), seconds=5)
    for second in range(1, 61):
        watch.now += 1
        state = ("PREPARING_REBALANCE", "COMPLETING_REBALANCE", "LOST")[second % 3]
        assert watch.update(worker_status(state=state, seconds=0.0)) == ready(
            (f"the group has rebalanced for {second} s: {state.lower().replace('_', ' ')}",)
        )
    watch.now += 1
    assert watch.update(worker_status(state="LOST", seconds=0.0)).not_ready == (
        "the group has rebalanced for 61 s: lost",
    )


@pytest.mark.parametrize("state", ["closed", "UNJOINED", "LEAVING", "FENCED"])
def test_member_that_left_is_not_ready_and_has_to_join_first(watch: Watch, state: str) -> None:
    watch.update(worker_status(partition()), seconds=5)
    assert watch.update(worker_status(state=state, seconds=3.0)).not_ready == (
        f"no member of g: {state.lower()} for 3 s",
    )
    watch.now += 1
    assert not watch.update(worker_status(state="PREPARING_REBALANCE")).is_ready


def test_member_that_revokes_partitions_is_ready(watch: Watch) -> None:
    assert watch.update(worker_status(partition(Activity.REVOKING, seconds=4.0), state="REVOKING")) == ready(
        ("orders-0: revoking for 4 s",)
    )


def test_failed_member_is_not_ready_until_it_is_back(watch: Watch) -> None:
    found = watch.update(worker_status(state="closed", failure="ValueError: no"))
    assert (found.not_ready, found.not_alive) == (("it has failed: ValueError: no",), ())
    again = worker_status(state="closed", failure="ValueError: no", restart=Restart(2.2, 4))
    assert watch.update(again).not_ready == ("it has failed: ValueError: no; restarting in 3 s (failures in a row: 4)",)
    again = attrs.evolve(again, restart=Restart(0.0, 4))
    assert watch.update(again).not_ready == ("it has failed: ValueError: no; restarting (failures in a row: 4)",)
    assert watch.update(worker_status(partition())).is_ready


def test_silent_worker_is_not_ready_and_then_not_alive(watch: Watch) -> None:
    others = worker_status(partition(of=ORDERS_1), worker=2)
    assert watch.update(worker_status(partition(), age=SILENT_AFTER), others).is_ready
    silent = watch.update(worker_status(partition(), age=STALL), others)
    assert (silent.not_ready, silent.not_alive) == (("worker 1: it has not reported for 60 s",), ())
    dead = watch.update(worker_status(partition(), age=STALL + 1), others)
    assert dead.not_alive == ("worker 1 has not reported for 61 s",)


def test_starting_worker_is_not_ready(watch: Watch) -> None:
    assert watch.update(WorkerStatus(worker=1, age=3.0)).not_ready == ("its handler is starting",)
    assert watch.update(WorkerStatus(worker=1, age=11.0)).not_ready == ("it has not reported for 11 s",)
    assert watch.update(WorkerStatus(worker=1, failure="was killed by SIGKILL")).not_ready == ("was killed by SIGKILL",)


def test_stopping_service_is_alive_but_not_ready(watch: Watch) -> None:
    found = watch.update(worker_status(partition()), stopping="SIGTERM")
    assert (found.not_ready, found.not_alive) == (("stopping: SIGTERM",), ())


def test_service_without_members_is_not_ready(watch: Watch) -> None:
    assert watch.update().not_ready == ("no member has started",)


@pytest.mark.parametrize(("state", "ready"), [("STABLE", False), ("REVOKING", False), ("PREPARING_REBALANCE", True)])
def test_silent_coordinator_may_have_removed_the_member(watch: Watch, state: str, ready: bool) -> None:
    """The coordinator may hold a join for long; a rebalance has its own limit."""
    watch.update(worker_status(partition()), seconds=5)
    assert watch.update(silent_for(10.0, state)).is_ready
    found = watch.update(silent_for(10.5, state))
    assert found.is_ready is ready
    if not ready:
        why = "the coordinator has not answered for 10 s: the group may have assigned its partitions to other members"
        assert found.not_ready == (why,)


def silent_for(seconds: float, state: str) -> WorkerStatus:
    member = worker_status(partition(), state=state)
    assert member.snapshot is not None
    status = attrs.evolve(member.snapshot.status, coordinator_seconds=seconds, session_timeout=10.0)
    return attrs.evolve(member, snapshot=attrs.evolve(member.snapshot, status=status))


@pytest.mark.parametrize(("ago", "ready"), [(-1.0, True), (0.0, False), (10.0, False), (10.5, True)])
def test_fault_41_recently_blocked_loop_is_not_ready(watch: Watch, ago: float, ready: bool) -> None:
    member = silent_for(0.0, "STABLE")
    assert member.snapshot is not None
    status = attrs.evolve(
        member.snapshot.status, blocked_seconds=4.0, blocked_ago=ago, blocked_at="shop.py:7 in consume_claim"
    )
    found = watch.update(attrs.evolve(member, snapshot=attrs.evolve(member.snapshot, status=status)))
    assert found.is_ready is ready
    if not ready:
        line = f"the event loop was blocked for 4 s, {ago:.0f} s ago: no heartbeat could be sent; "
        assert found.not_ready == (f"{line}shop.py:7 in consume_claim",)
        assert found.problems == (), "the log already has it"


@pytest.mark.parametrize("activity", [Activity.COMMITTING, Activity.LANDING, Activity.PAUSED])
def test_failing_commit_is_named_despite_other_progress(watch: Watch, activity: Activity) -> None:
    for second in range(61):
        moving = partition(activity, marked=second, uncommitted_seconds=float(second))
        assert watch.update(worker_status(moving)).is_ready
    assert watch.update(worker_status(attrs.evolve(moving, uncommitted_seconds=60.5))).not_ready == (
        f"orders-0: no commit succeeds, for 60 s: {activity} for 0 s",
    )


def test_overdue_handler_is_named_with_its_stack_by_every_worker(watch: Watch) -> None:
    overdue = OverdueHandler(partition=ORDERS_0, offset=3001, last_offset=3001, seconds=66.0, stack="f\n  line\n")
    held = partition(Activity.IN_HANDLER, seconds=66.0, reason=str(overdue), overdue=overdue)
    found = watch.update(worker_status(held), worker_status(partition(of=ORDERS_1), worker=2))
    line = "worker 1: orders-0: in handler for 66 s: handler has held orders-0 offset 3001 for 66 s"
    assert found.is_ready
    assert found.explained == (line,)
    assert found.stacks == ("handler has held orders-0 offset 3001 for 66 s; its stack:\n    f\n      line",)


def test_overdue_handlers_beyond_ten_have_no_stack_in_readyz(watch: Watch) -> None:
    overdue = OverdueHandler(partition=ORDERS_0, offset=1, last_offset=5, seconds=66.0, stack="f\n")
    found = watch.update(worker_status(*[partition(Activity.IN_HANDLER, overdue=overdue)] * 12))
    assert len(found.stacks) == 10
