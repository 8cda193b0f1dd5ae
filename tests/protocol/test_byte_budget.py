"""Fetches never exceed the byte budget, and share it fairly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sarameya.protocol.fetch.byte_budget import ByteBudget, Share

MIB = 2**20


def fetch(budget: ByteBudget, shares: list[Share], at_most: int, partition_bytes: int) -> dict[Share, int]:
    """Return the bytes that a broker with plenty of records sends for each share, in order, up to the request size."""
    wanted = [share for share in shares if share.has_room]
    size = budget.fetch_size(partition_bytes)
    holding = [share for share in wanted if share.held]
    reserved = budget.reserve(min(at_most, len(wanted) * size), len(wanted) - len(holding), holding)
    remaining, received = reserved, {}
    for share in wanted:
        received[share] = min(size, remaining)
        remaining -= received[share]
    for share, size in received.items():
        share.hold(size)
    budget.settle(reserved)
    return received


def test_single_partition_may_use_more_than_half_the_budget() -> None:
    budget = ByteBudget(64 * MIB)
    share = budget.open()
    for _ in range(5):
        assert fetch(budget, [share], 50 * MIB, 32 * MIB) == {share: 8 * MIB}, "an eighth of the budget in each fetch"
    assert not share.has_room


def test_pending_fetches_count_against_the_budget() -> None:
    budget = ByteBudget(10 * MIB)
    for _ in range(3):
        budget.open()
    eighth, floor = 10 * MIB // 8, 5 * MIB // 3

    def reserve() -> int:
        budget.fetch_size(MIB)
        return budget.reserve(8 * MIB, 1, ())

    sizes = [reserve() for _ in range(5)]
    assert sizes[:4] == [eighth] * 4
    assert sum(sizes) <= 5 * MIB + floor + 2, "the half that is no share's floor, and one floor"
    budget.settle(sum(sizes))
    assert reserve() == eighth


def test_released_bytes_notify_a_waiting_caller_once() -> None:
    budget, notifications = ByteBudget(MIB), []
    share = budget.open()
    share.hold(100)
    budget.notify_of_room(lambda: notifications.append(1))
    share.release(60)
    share.release(40)
    assert notifications == [1]


def test_closed_share_releases_its_bytes_and_holds_no_more() -> None:
    budget = ByteBudget(MIB)
    share = budget.open()
    share.hold(100)
    share.close()
    share.hold(5)
    share.release(7)
    share.close()
    assert budget.held == 0


def test_slow_partitions_leave_room_for_others() -> None:
    budget = ByteBudget(64 * MIB)
    slow, quick = [budget.open() for _ in range(63)], budget.open()
    for _ in range(100):  # no handler takes their records
        fetch(budget, slow, 50 * MIB, MIB)
    assert not any(share.has_room for share in slow)
    for _ in range(5):
        assert fetch(budget, [quick], 50 * MIB, MIB)[quick] >= MIB // 4
        quick.release(quick.held)
    assert budget.held <= budget.capacity


def test_busy_partition_among_quiet_ones_is_fetched_fully() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    for _ in range(5):
        assert fetch(budget, shares[:1], 50 * MIB, MIB)[shares[0]] == MIB
        shares[0].release(MIB)


def test_thousand_busy_partitions_share_the_budget() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    for _ in range(50):
        waiting = sorted(shares, key=lambda share: share.held)  # those with the fewest held bytes come first
        fetch(budget, waiting, 50 * MIB, MIB)
        assert budget.held <= budget.capacity
    assert all(share.held for share in shares)


def calls(action: Callable[[], None]) -> int:
    """Return how many Python functions `action` calls or resumes: a cost that is independent of the machine."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def test_cost_of_a_share_is_independent_of_the_number_of_shares() -> None:
    def open_and_close(count: int) -> None:
        budget = ByteBudget(64 * MIB)
        shares = []
        for _ in range(count):
            shares.append(budget.open())
            shares[-1].hold(1000)
        for share in shares:
            share.close()

    assert calls(lambda: open_and_close(2000)) < 5 * calls(lambda: open_and_close(500))


# -- bytes that handlers keep ----------------------------------------------------------------------------


def keep(share: Share, size: int) -> bool:
    """Keep `size` more bytes, as a collecting handler does. If no more may be kept, release all and return True."""
    share.keep(size)
    if share.may_keep_more:
        return False
    share.keep_less(share.kept)
    return True


def test_exhausted_room_for_kept_bytes_is_reported_at_once() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(32)]
    budget.fetch_size(MIB)
    reported: list[int] = []
    for n, share in enumerate(shares * 4):
        if keep(share, 2 * MIB):
            reported.append(n)
            break
    assert reported == [8], "floors are 1 MiB: eight shares, 1 MiB above theirs each, keep an eighth of the budget"
    assert not shares[8].kept
    assert all(share.may_keep_more for share in shares)


def test_partition_may_keep_an_eighth_less_one_fetch() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    budget.fetch_size(MIB)
    floor, kept = 32 * MIB // 1000, 0
    while not keep(shares[0], MIB // 4):
        kept += MIB // 4
    assert kept == 7 * MIB, "an eighth, less the size of one fetch"
    assert kept + MIB // 4 > floor + 7 * MIB


def test_fetched_bytes_do_not_count_as_kept() -> None:
    """Otherwise a handler that takes a fetch piece by piece could keep no more after the first piece."""
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    budget.fetch_size(MIB)
    for share in shares[:20]:
        share.hold(MIB)
    shares[0].hold(7 * MIB)
    reserved = budget.reserve(8 * MIB, 980, shares[:20])
    budget.fetch_size(MIB)
    assert not shares[0].has_room
    for share in shares[:20]:
        share.keep(100_000)
        assert share.may_keep_more
    budget.settle(reserved)


def test_share_that_keeps_little_has_room_despite_others() -> None:
    budget = ByteBudget(64 * MIB)
    one, other = budget.open(), budget.open()
    budget.fetch_size(MIB)
    one.keep(64 * MIB)
    other.keep(8 * MIB)
    assert (one.may_keep_more, other.may_keep_more) == (False, True)


def test_closed_share_keeps_nothing() -> None:
    budget = ByteBudget(1000)
    share, other = budget.open(), budget.open()
    share.keep(900)
    share.close()
    share.keep(10)
    share.keep_less(900)
    assert share.may_keep_more
    assert (budget.held, budget._kept_excess) == (0, 0)
    other.keep(400)
    assert other.may_keep_more, "the only open share has the floors of all"


@settings(max_examples=300)
@given(data=st.data())
def test_no_partition_stalls_if_handlers_heed_may_keep_more(data: st.DataObject) -> None:
    """Once all fetched bytes are taken, every partition may be fetched, and the budget has room for it.

    The handlers only collect. Each checks only its own share, right after it has kept more. Some brokers without
    records are long-polled meanwhile.
    """
    capacity = data.draw(st.sampled_from([1024, 10_000, MIB, 64 * MIB]))
    partition_bytes = data.draw(st.sampled_from([100, 10_000, MIB]))
    budget = ByteBudget(capacity)
    shares = [budget.open() for _ in range(data.draw(st.sampled_from([1, 2, 3, 20, 300])))]
    fetched: dict[Share, int] = dict.fromkeys(shares, 0)
    grows = data.draw(st.sampled_from([1, 3, 20]))  # compressed records are larger when they are kept

    def take(share: Share, size: int) -> None:
        fetched[share] -= size
        share.keep(size * grows)
        share.release(size)
        if not share.may_keep_more:
            share.keep_less(share.kept)

    some = st.lists(st.integers(0, min(len(shares), 40) - 1), min_size=1, max_size=40, unique=True)
    for _ in range(data.draw(st.integers(1, 30))):
        chosen = [shares[place] for place in data.draw(some)]
        if data.draw(st.booleans()):
            for share, size in fetch(budget, chosen, 50 * MIB, partition_bytes).items():
                fetched[share] += size
                budget.record_batches(max(size, 1), data.draw(st.integers(1, 3)))
        else:
            part = data.draw(st.sampled_from([1, 2, 5]))
            for share in chosen:
                take(share, fetched[share] // part)
    for share in shares:
        take(share, fetched[share])
    budget.reserved += data.draw(st.integers(0, capacity // 8))
    size = budget.fetch_size(partition_bytes)
    assert all(share.has_room for share in shares)
    holding = [share for share in shares if share.held]
    assert budget.reserve(size, len(shares) - len(holding), holding) > 0
    event(f"{sum(share.kept > budget._floor for share in shares) > 0=}")


class Budgets(RuleBasedStateMachine):
    """Partitions are added, fetched, taken from, and removed in any order."""

    @initialize(
        capacity=st.sampled_from([1000, 10_000, 64 * MIB]),
        partition_bytes=st.sampled_from([100, MIB]),
        count=st.sampled_from([1, 3, 100]),
        opens_late=st.booleans(),
    )
    def begin(self, capacity: int, partition_bytes: int, count: int, opens_late: bool) -> None:
        self.budget = ByteBudget(capacity)
        self.partition_bytes = partition_bytes
        self.shares = [self.budget.open() for _ in range(count)]
        self.opens_late = opens_late
        self.pending: list[tuple[int, list[Share]]] = []

    def idle_shares(self) -> list[Share]:
        """Return the partitions in no pending fetch: a partition is in one at a time."""
        in_a_fetch = {share for _, shares in self.pending for share in shares}
        return [share for share in self.shares if share not in in_a_fetch]

    @precondition(lambda self: self.opens_late)
    @rule(count=st.sampled_from([1, 1, 1, 30]))
    def open_shares(self, count: int) -> None:
        self.shares += [self.budget.open() for _ in range(count)]

    @precondition(lambda self: self.shares)
    @rule(data=st.data())
    def close_share(self, data: st.DataObject) -> None:
        share = self.shares.pop(data.draw(st.integers(0, len(self.shares) - 1)))
        share.close()

    @precondition(lambda self: self.shares)
    @rule(first=st.integers(0, 40), count=st.integers(1, 40))
    def fetch(self, first: int, count: int) -> None:
        fetch(self.budget, self.idle_shares()[first : first + count], 50 * MIB, self.partition_bytes)

    @rule(count=st.integers(1, 5))
    def start_fetch(self, count: int) -> None:
        shares = [share for share in self.idle_shares() if share.has_room][:count]
        if shares:
            size, holding = self.budget.fetch_size(self.partition_bytes), [share for share in shares if share.held]
            reserved = self.budget.reserve(size * len(shares), len(shares) - len(holding), holding)
            self.pending.append((reserved, shares))

    @precondition(lambda self: self.pending)
    @rule()
    def end_fetch_without_records(self) -> None:
        self.budget.settle(self.pending.pop()[0])

    @precondition(lambda self: self.shares)
    @rule(data=st.data(), size=st.sampled_from([1, 300, MIB]))
    def keep(self, data: st.DataObject, size: int) -> None:
        """Keep bytes that were fetched, so that the held bytes stay the same."""
        share = self.shares[data.draw(st.integers(0, len(self.shares) - 1))]
        size = min(size, share.held - share.kept)
        share.release(size)
        share.keep(size)

    @precondition(lambda self: self.shares)
    @rule(data=st.data(), part=st.sampled_from([1, 2]))
    def keep_less(self, data: st.DataObject, part: int) -> None:
        share = self.shares[data.draw(st.integers(0, len(self.shares) - 1))]
        share.keep_less(share.kept // part)

    @precondition(lambda self: self.shares)
    @rule(data=st.data(), part=st.sampled_from([1, 2]))
    def take(self, data: st.DataObject, part: int) -> None:
        share = self.shares[data.draw(st.integers(0, len(self.shares) - 1))]
        share.release((share.held - share.kept) // part)

    @invariant()
    def budget_is_not_exceeded(self) -> None:
        budget = self.budget
        assert budget.held == sum(share.held for share in self.shares)
        assert budget.reserved == sum(reserved for reserved, _ in self.pending)
        # A share that is opened when the budget is used up may still have a floor.
        assert 0 <= budget.held + budget.reserved <= budget.capacity * (1.5 if self.opens_late else 1)

    @invariant()
    def excess_is_the_sum_above_the_floors(self) -> None:
        budget = self.budget
        budget._divide()
        assert budget._excess == sum(max(share.held - budget._floor, 0) for share in self.shares)
        assert budget._kept_excess == sum(max(share.kept - budget._floor, 0) for share in self.shares)

    @invariant()
    def idle_share_may_fetch_unless_the_budget_is_used_up(self) -> None:
        budget = self.budget
        if any(not share.held for share in self.idle_shares()):
            budget.fetch_size(self.partition_bytes)
            size = budget.reserve(self.partition_bytes, 1, ())
            budget.settle(size)
            assert size or not budget._floor


TestBudgets = Budgets.TestCase
