"""Handlers whose `start_offset` takes long, while the group rebalances. Virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import CommittedOffset, Session, TopicPartition
from sarameya.observe import ClaimStarted, PartitionsAssigned
from sarameya.protocol.versions import Api
from tests.group.kit import committed, deadline, eventually, fill, orders
from tests.group.test_cooperative import Partitions, start


class SlowStart(Partitions):
    """A recorder whose `start_offset` takes long."""

    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
        self._note(f"start_offset {partition.partition}")
        await trio.sleep(8)
        return 2


async def test_rebalances_without_revocation_let_a_claim_start(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = SlowStart(), Partitions()
        first = await start(nursery, cluster, one)
        await start(nursery, cluster, two)
        await eventually(lambda: len(one.claims) == len(two.claims) == 1)
        began = trio.current_time()
        for _ in range(4):
            surplus = await start(nursery, cluster, Partitions())
            await trio.sleep(4)
            await surplus.close()
            await trio.sleep(4)
        assert [e.offset for e in first.seen(ClaimStarted)] == [2]
        assert one.calls.count(f"start_offset {one.claims[0]}") <= 2, "once more after the other partition's revocation"
        assert trio.current_time() - began > 30


async def test_partition_revoked_during_its_look_up_never_starts(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = SlowStart(), Partitions()
        first = await start(nursery, cluster, one)
        await start(nursery, cluster, two)
        await eventually(lambda: len(two.claims) == 1)
        assert first.seen(ClaimStarted) == []
        await eventually(lambda: bool(first.seen(ClaimStarted)))
        await trio.sleep(30)
        assert [e.partition.partition for e in first.seen(ClaimStarted)] == list(one.claims)
        assert f"revoked {two.claims[0]}" in one.calls


@pytest.mark.parametrize("hook", ["setup", "partitions_assigned"])
async def test_mark_made_before_a_cancelled_start_is_kept(autojump_clock: MockClock, hook: str) -> None:
    class Marks(SlowStart):
        async def setup(self, session: Session) -> None:
            await super().setup(session)
            if hook == "setup":
                self._mark(session, (0, 1))

        async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await super().partitions_assigned(session, partitions)
            if hook == "partitions_assigned":
                self._mark(session, (tp.partition for tp in partitions))

        def _mark(self, session: Session, partitions: Iterable[int]) -> None:
            for partition in partitions:
                session.mark_offset("orders", partition, 2, "the ones before are poisoned")

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 2, 0)
        fill(cluster, 2, 1)
        one, two = Marks(), Partitions()
        first = await start(nursery, cluster, one, autocommit=False)
        await one.until(lambda: bool(one.claims))
        await start(nursery, cluster, two)
        await eventually(lambda: bool(first.seen(ClaimStarted)))
        assert one.calls.count(f"start_offset {one.claims[0]}") == 2, "the other partition was revoked"
        assert committed(cluster).get(f"orders-{one.claims[0]}") is None
        await one.sessions[-1].commit()
        assert committed(cluster)[f"orders-{one.claims[0]}"] == 2


async def test_start_offsets_of_a_cancelled_start_are_kept(autojump_clock: MockClock) -> None:
    """A partition is revoked while the last `start_offset` runs. The kept partitions have their offsets already."""

    class AnswersTwo(Partitions):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            self._note(f"start_offset {partition.partition}")
            if partition.partition == 2:
                await trio.sleep(8)
            return 0

    async with orders(3) as cluster, deadline() as nursery:
        one, two = AnswersTwo(), Partitions()
        first = await start(nursery, cluster, one)
        await one.until(lambda: "start_offset 2" in one.calls)
        await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 1)
        await eventually(lambda: len(first.seen(ClaimStarted)) == 2)
        assert [one.calls.count(f"start_offset {number}") for number in (0, 1)] == [1, 1]


async def test_newer_assignment_overtakes_a_slow_offset_fetch(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        cluster.delay_next(Api.OFFSET_FETCH, 20.0, 1, client_id="one")
        first = await start(nursery, cluster, Partitions(), client_id="one")
        await eventually(lambda: bool(first.seen(PartitionsAssigned)))
        began = trio.current_time()
        await start(nursery, cluster, Partitions(), client_id="two")
        await eventually(lambda: len(first.seen(PartitionsAssigned)) > 1)
        assert trio.current_time() - began < 10


async def test_slow_start_offset_is_cancelled_with_its_session(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one = SlowStart()
        first = await start(nursery, cluster, one)
        await one.until(lambda: "start_offset 0" in one.calls)
        await trio.sleep(1)
        began = trio.current_time()
        await first.close()
        assert trio.current_time() - began < 1
        assert first.seen(ClaimStarted) == []
        assert one.calls[-1] == "cleanup"
