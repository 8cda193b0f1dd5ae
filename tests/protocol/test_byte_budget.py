"""One budget for what is fetched: never exceeded, and fair."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sarameya.protocol.byte_budget import ByteBudget, Share

MIB = 2**20


def fetch(budget: ByteBudget, shares: list[Share], at_most: int, partition_bytes: int) -> dict[Share, int]:
    """What a broker with plenty of everything sends for these: in their order, until the request's size is used up."""
    wanted = [share for share in shares if share.has_room]
    size = budget.fetch_size(partition_bytes)
    holding = [share for share in wanted if share.held]
    reserved = budget.reserve(min(at_most, len(wanted) * size), len(wanted) - len(holding), holding)
    left, brought = reserved, {}
    for share in wanted:
        brought[share] = min(size, left)
        left -= brought[share]
    for share, size in brought.items():
        share.hold(size)
    budget.settle(reserved)
    return brought


def test_partition_alone_may_have_more_than_half_of_it() -> None:
    budget = ByteBudget(64 * MIB)
    share = budget.open()
    for _ in range(5):
        assert fetch(budget, [share], 50 * MIB, 32 * MIB) == {share: 8 * MIB}, "an eighth of it at a time"
    assert not share.has_room


def test_fetches_on_their_way_count() -> None:
    budget = ByteBudget(10 * MIB)
    for _ in range(3):
        budget.open()
    eighth, floor = 10 * MIB // 8, 5 * MIB // 3

    def reserve() -> int:
        budget.fetch_size(MIB)
        return budget.reserve(8 * MIB, 1, ())

    sizes = [reserve() for _ in range(5)]
    assert sizes[:4] == [eighth] * 4
    assert sum(sizes) <= 5 * MIB + floor + 2, "what is nobody's floor, and its own"
    budget.settle(sum(sizes))
    assert reserve() == eighth


def test_what_is_given_back_is_told_once_to_whoever_waits() -> None:
    budget, told = ByteBudget(MIB), []
    share = budget.open()
    share.hold(100)
    budget.tell_of_room(lambda: told.append(1))
    share.release(60)
    share.release(40)
    assert told == [1]


def test_closed_share_gives_back_all_it_holds_and_takes_no_more() -> None:
    budget = ByteBudget(MIB)
    share = budget.open()
    share.hold(100)
    share.close()
    share.hold(5)
    share.release(7)
    share.close()
    assert budget.held == 0


def test_slow_partitions_leave_the_others_room() -> None:
    budget = ByteBudget(64 * MIB)
    slow, quick = [budget.open() for _ in range(63)], budget.open()
    for _ in range(100):  # nobody takes anything of theirs
        fetch(budget, slow, 50 * MIB, MIB)
    assert not any(share.has_room for share in slow)
    for _ in range(5):
        assert fetch(budget, [quick], 50 * MIB, MIB)[quick] >= MIB // 4
        quick.release(quick.held)
    assert budget.held <= budget.capacity


def test_busy_partition_among_a_thousand_quiet_ones_is_fetched_at_full_size() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    for _ in range(5):
        assert fetch(budget, shares[:1], 50 * MIB, MIB)[shares[0]] == MIB
        shares[0].release(MIB)


def test_thousand_busy_partitions_all_get_something_and_keep_within_the_budget() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    for _ in range(50):
        waiting = sorted(shares, key=lambda share: share.held)  # what was served last stands last
        fetch(budget, waiting, 50 * MIB, MIB)
        assert budget.held <= budget.capacity
    assert all(share.held for share in shares)


def calls(action: Callable[[], None]) -> int:
    """How many Python functions it calls, or goes on with: what it costs, on whatever machine."""
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


def test_shares_are_opened_and_closed_at_the_same_cost_however_many_there_are() -> None:
    def come_and_go(count: int) -> None:
        budget = ByteBudget(64 * MIB)
        shares = []
        for _ in range(count):
            shares.append(budget.open())
            shares[-1].hold(1000)
        for share in shares:
            share.close()

    assert calls(lambda: come_and_go(2000)) < 5 * calls(lambda: come_and_go(500))


class Budgets(RuleBasedStateMachine):
    """In whatever order partitions come, are fetched, taken from, and go."""

    @initialize(
        capacity=st.sampled_from([1000, 10_000, 64 * MIB]),
        partition_bytes=st.sampled_from([100, MIB]),
        count=st.sampled_from([1, 3, 100]),
        comes_late=st.booleans(),
    )
    def begin(self, capacity: int, partition_bytes: int, count: int, comes_late: bool) -> None:
        self.budget = ByteBudget(capacity)
        self.partition_bytes = partition_bytes
        self.shares = [self.budget.open() for _ in range(count)]
        self.comes_late = comes_late
        self.on_their_way: list[tuple[int, list[Share]]] = []

    def at_hand(self) -> list[Share]:
        """Those that no fetch on its way names: a partition is in one at a time."""
        named = {share for _, shares in self.on_their_way for share in shares}
        return [share for share in self.shares if share not in named]

    @precondition(lambda self: self.comes_late)
    @rule(count=st.sampled_from([1, 1, 1, 30]))
    def come(self, count: int) -> None:
        self.shares += [self.budget.open() for _ in range(count)]

    @precondition(lambda self: self.shares)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        share = self.shares.pop(data.draw(st.integers(0, len(self.shares) - 1)))
        share.close()

    @precondition(lambda self: self.shares)
    @rule(first=st.integers(0, 40), count=st.integers(1, 40))
    def fetch(self, first: int, count: int) -> None:
        fetch(self.budget, self.at_hand()[first : first + count], 50 * MIB, self.partition_bytes)

    @rule(count=st.integers(1, 5))
    def ask(self, count: int) -> None:
        shares = [share for share in self.at_hand() if share.has_room][:count]
        if shares:
            size, holding = self.budget.fetch_size(self.partition_bytes), [share for share in shares if share.held]
            reserved = self.budget.reserve(size * len(shares), len(shares) - len(holding), holding)
            self.on_their_way.append((reserved, shares))

    @precondition(lambda self: self.on_their_way)
    @rule()
    def hear_nothing(self) -> None:
        self.budget.settle(self.on_their_way.pop()[0])

    @precondition(lambda self: self.shares)
    @rule(data=st.data(), part=st.sampled_from([1, 2]))
    def take(self, data: st.DataObject, part: int) -> None:
        share = self.shares[data.draw(st.integers(0, len(self.shares) - 1))]
        share.release(share.held // part)

    @invariant()
    def it_is_kept(self) -> None:
        budget = self.budget
        assert budget.held == sum(share.held for share in self.shares)
        assert budget.reserved == sum(reserved for reserved, _ in self.on_their_way)
        # Who comes when all is used up may have a floor all the same.
        assert 0 <= budget.held + budget.reserved <= budget.capacity * (1.5 if self.comes_late else 1)

    @invariant()
    def excess_is_counted_right(self) -> None:
        budget = self.budget
        budget._deal()
        assert budget._excess == sum(max(share.held - budget._floor, 0) for share in self.shares)

    @invariant()
    def whoever_has_nothing_may_have_something_unless_all_is_used_up(self) -> None:
        budget = self.budget
        if any(not share.held for share in self.at_hand()):
            budget.fetch_size(self.partition_bytes)
            size = budget.reserve(self.partition_bytes, 1, ())
            budget.settle(size)
            assert size or not budget._floor


TestBudgets = Budgets.TestCase
