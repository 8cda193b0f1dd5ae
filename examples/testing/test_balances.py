"""Tests of a handler: alone, with a feed; then in a group, with faults of an embedded cluster.

pip install pytest pytest-trio; pytest examples/testing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import trio
from balances import Balances
from trio.testing import MockClock

from sarameya import ClaimError, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.testing import Api, ClaimFeed, ErrorCode

Feeds = Callable[..., ClaimFeed]
Groups = Callable[..., ConsumerGroup]


class Accounts:
    """A store in memory, which can be unavailable. `full` is set when it has `until` cents."""

    def __init__(self, until: int = 0) -> None:
        self.cents: Counter[str] = Counter()
        self.is_available = True
        self.full = trio.Event()
        self._until = until

    async def add(self, account: str, cents: int) -> None:
        await trio.sleep(0.01)
        if not self.is_available:
            raise ConnectionError("the store is unavailable")
        self.cents[account] += cents
        if self.cents.total() == self._until:
            self.full.set()


async def test_payments_are_added_up_and_committed(autojump_clock: MockClock, claim_feed: Feeds) -> None:
    feed, accounts = claim_feed("payments"), Accounts()
    feed.send(b"250", key=b"ann")
    feed.send(b"-100", key=b"ann")
    feed.send(b"70", key=b"bob")
    feed.end()
    await feed.run(Balances(accounts))
    assert accounts.cents == {"ann": 150, "bob": 70}
    assert feed.committed == 3


async def test_invalid_payment_is_counted_and_skipped(autojump_clock: MockClock, claim_feed: Feeds) -> None:
    feed, accounts = claim_feed("payments"), Accounts()
    balances = Balances(accounts)
    feed.send(b"not a number", key=b"ann")
    feed.send(None, key=b"ann")
    feed.send(b"5", key=b"ann")
    feed.end()
    await feed.run(balances)
    assert (balances.refused, accounts.cents["ann"], feed.committed) == (2, 5, 3)


async def test_payment_that_was_not_stored_is_repeated(autojump_clock: MockClock, claim_feed: Feeds) -> None:
    feed, accounts = claim_feed("payments"), Accounts()
    feed.send(b"1", key=b"ann")
    feed.end()
    accounts.is_available = False
    with pytest.raises(ExceptionGroup) as caught:
        await feed.run(Balances(accounts))
    assert caught.group_contains(ClaimError, match="payments-0 at offset 1.*the store is unavailable")
    assert feed.committed == 0
    accounts.is_available = True
    await feed.run(Balances(accounts))
    assert (accounts.cents["ann"], feed.committed) == (1, 1)


async def test_lost_membership_repeats_payments(autojump_clock: MockClock, claim_feed: Feeds) -> None:
    """Delivery is at least once. A handler that must not count a payment twice has to store the offset as well."""
    feed, accounts = claim_feed("payments"), Accounts()
    feed.send(b"10", key=b"ann")
    feed.lose()
    await feed.run(Balances(accounts))
    feed.end()
    await feed.run(Balances(accounts))
    assert accounts.cents["ann"] == 20


@pytest.mark.sarameya({"payments": 4}, brokers=3)
async def test_group_continues_after_its_coordinator_moves(
    sarameya_clock: MockClock, sarameya_faults: EmbeddedCluster, sarameya_group: Groups
) -> None:
    cluster, accounts = sarameya_faults, Accounts(until=40)
    cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, 2)
    async with sarameya_group("balances") as group, trio.open_nursery() as nursery:
        nursery.start_soon(group.consume, ["payments"], Balances(accounts))
        for number in range(40):
            cluster.produce("payments", number % 4, b"1", key=b"ann")
        await accounts.full.wait()
        group.close_nowait()
    assert accounts.cents["ann"] == 40
    assert sum(offset.offset for offset in cluster.committed("balances").values()) == 40
