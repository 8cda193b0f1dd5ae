"""Byte budget of fetches: never exceeded, and fair."""

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
    """Return the response of a broker with plenty of records: in order, up to the request's size."""
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
    budget.notify_of_room(lambda: told.append(1))
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
        waiting = sorted(shares, key=lambda share: share.held)  # what was served last stands last
        fetch(budget, waiting, 50 * MIB, MIB)
        assert budget.held <= budget.capacity
    assert all(share.held for share in shares)


def calls(action: Callable[[], None]) -> int:
    """Count the Python functions that are called or resumed: the cost, independent of the machine."""
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


def test_cost_of_a_share_is_independent_of_their_number() -> None:
    def come_and_go(count: int) -> None:
        budget = ByteBudget(64 * MIB)
        shares = []
        for _ in range(count):
            shares.append(budget.open())
            shares[-1].hold(1000)
        for share in shares:
            share.close()

    assert calls(lambda: come_and_go(2000)) < 5 * calls(lambda: come_and_go(500))


# -- what handlers keep ----------------------------------------------------------------------------------


def keep(share: Share, size: int) -> bool:
    """A handler that collects takes this much more, and deals with all of it where it is told. Whether it was."""
    share.keep(size)
    if share.may_keep_more:
        return False
    share.keep_less(share.kept)
    return True


def test_exhausted_room_for_held_bytes_is_reported_at_once() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(32)]
    budget.fetch_size(MIB)
    told: list[int] = []
    for n, share in enumerate(shares * 4):
        if keep(share, 2 * MIB):
            told.append(n)
            break
    assert told == [8], "floors are a MiB: eight beyond theirs by one are an eighth of the budget"
    assert not shares[8].kept
    assert all(share.may_keep_more for share in shares)


def test_partition_may_hold_all_but_one_fetch() -> None:
    budget = ByteBudget(64 * MIB)
    shares = [budget.open() for _ in range(1000)]
    budget.fetch_size(MIB)
    floor, kept = 32 * MIB // 1000, 0
    while not keep(shares[0], MIB // 4):
        kept += MIB // 4
    assert kept == 7 * MIB, "an eighth, less what a fetch brings"
    assert kept + MIB // 4 > floor + 7 * MIB


def test_what_was_fetched_before_does_not_count_as_kept() -> None:
    """Else who takes a fetch piece by piece would be told at the first one."""
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


def test_who_keeps_little_has_room_whatever_others_keep() -> None:
    budget = ByteBudget(64 * MIB)
    one, other = budget.open(), budget.open()
    budget.fetch_size(MIB)
    one.keep(64 * MIB)
    other.keep(8 * MIB)
    assert (one.may_keep_more, other.may_keep_more) == (False, True)


def test_share_that_is_closed_keeps_nothing() -> None:
    budget = ByteBudget(1000)
    share, other = budget.open(), budget.open()
    share.keep(900)
    share.close()
    share.keep(10)
    share.keep_less(900)
    assert share.may_keep_more
    assert (budget.held, budget._kept_excess) == (0, 0)
    other.keep(400)
    assert other.may_keep_more, "all floors are its own now"


@settings(max_examples=300)
@given(data=st.data())
def test_no_handler_waits_forever_if_all_heed_has_room(data: st.DataObject) -> None:
    """Handlers that only collect, and look at nothing but their own share, right after they have kept more. Whatever
    came before: once all that was fetched is taken, every partition may be fetched, and there is budget for it, also
    while brokers that have nothing are long-polled."""
    capacity = data.draw(st.sampled_from([1024, 10_000, MIB, 64 * MIB]))
    partition_bytes = data.draw(st.sampled_from([100, 10_000, MIB]))
    budget = ByteBudget(capacity)
    shares = [budget.open() for _ in range(data.draw(st.sampled_from([1, 2, 3, 20, 300])))]
    fetched: dict[Share, int] = dict.fromkeys(shares, 0)
    grows = data.draw(st.sampled_from([1, 3, 20]))  # what is compressed is more when it is kept

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
        comes_late=st.booleans(),
    )
    def begin(self, capacity: int, partition_bytes: int, count: int, comes_late: bool) -> None:
        self.budget = ByteBudget(capacity)
        self.partition_bytes = partition_bytes
        self.shares = [self.budget.open() for _ in range(count)]
        self.comes_late = comes_late
        self.on_their_way: list[tuple[int, list[Share]]] = []

    def at_hand(self) -> list[Share]:
        """Return the partitions in no pending fetch: a partition is in one at a time."""
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
    @rule(data=st.data(), size=st.sampled_from([1, 300, MIB]))
    def keep(self, data: st.DataObject, size: int) -> None:
        """Release held bytes, so that the budget is kept."""
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
    def it_is_kept(self) -> None:
        budget = self.budget
        assert budget.held == sum(share.held for share in self.shares)
        assert budget.reserved == sum(reserved for reserved, _ in self.on_their_way)
        # Who comes when all is used up may have a floor all the same.
        assert 0 <= budget.held + budget.reserved <= budget.capacity * (1.5 if self.comes_late else 1)

    @invariant()
    def excess_is_counted_right(self) -> None:
        budget = self.budget
        budget._divide()
        assert budget._excess == sum(max(share.held - budget._floor, 0) for share in self.shares)
        assert budget._kept_excess == sum(max(share.kept - budget._floor, 0) for share in self.shares)

    @invariant()
    def whoever_has_nothing_may_have_something_unless_all_is_used_up(self) -> None:
        budget = self.budget
        if any(not share.held for share in self.at_hand()):
            budget.fetch_size(self.partition_bytes)
            size = budget.reserve(self.partition_bytes, 1, ())
            budget.settle(size)
            assert size or not budget._floor


TestBudgets = Budgets.TestCase
