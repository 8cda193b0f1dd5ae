"""Start offsets of claims. No claim waits for the leader of another partition. Virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import CommittedOffset, Consumer, ErrorCode, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimEnded, ClaimStarted
from sarameya.protocol.versions import Api
from tests.group.kit import Running, committed, deadline, eventually, fill, orders, start_member
from tests.group.test_cooperative import COOPERATIVE, Partitions, start
from tests.group.test_streams import Streaming


class FixedStarts(Partitions):
    """A handler with its own start offsets for some partitions."""

    def __init__(self, offsets: dict[int, int]) -> None:
        super().__init__()
        self._offsets = offsets

    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
        return self._offsets.get(partition.partition)


def two_brokers(partitions: int) -> EmbeddedCluster:
    return orders(partitions, brokers=2)


def withhold_offsets(cluster: EmbeddedCluster, numbers: Iterable[int], of: int) -> None:
    """Move the partitions `numbers` to a leader that returns no offsets, and all others to one that does."""
    for number in range(of):
        cluster.move_leader("orders", number, 0 if number in numbers else 1)
    cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, None, broker_id=0)


def claim_starts(member: Running) -> dict[int, tuple[int, str]]:
    return {e.partition.partition: (e.offset, e.why) for e in member.seen(ClaimStarted)}


@pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])
async def test_partition_without_a_leader_delays_no_other(autojump_clock: MockClock, options: dict[str, Any]) -> None:
    async with two_brokers(4) as cluster, deadline() as nursery:
        for number in range(4):
            fill(cluster, 5, number)
        async with Consumer(cluster.bootstrap_servers, group_id="g", transport=cluster.transport) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest"):
                consumer.mark_offset("orders", 0, 5)
        withhold_offsets(cluster, {3}, of=4)
        one = FixedStarts({1: 3})
        member = await start_member(nursery, cluster, one, **options)
        await trio.sleep(10)
        assert claim_starts(member) == {0: (5, "committed"), 1: (3, "handler"), 2: (0, "oldest")}
        assert one.offsets("orders", 2) == list(range(5))
        assert "orders-3" not in committed(cluster)
        cluster.clear_faults()
        await eventually(lambda: one.offsets("orders", 3) == list(range(5)))
        assert len(one.sessions) == 1


async def test_started_claim_continues_when_a_starting_one_is_revoked(
    autojump_clock: MockClock,
) -> None:
    async with two_brokers(4) as cluster, deadline() as nursery:
        withhold_offsets(cluster, {0, 2}, of=4)
        one, two = Partitions(), Partitions()
        first = await start(nursery, cluster, one)
        await eventually(lambda: claim_starts(first).keys() == {1, 3})
        second = await start(nursery, cluster, two)
        await eventually(lambda: len(one.claims) == len(two.claims) == 2)
        cluster.clear_faults()
        await eventually(lambda: len(claim_starts(second)) == 2 and claim_starts(first).keys() >= set(one.claims))
        kept = [e.partition.partition for e in first.seen(ClaimStarted) if e.partition.partition in one.claims]
        assert sorted(kept) == list(one.claims), "each has started once"
        assert {e.partition.partition for e in first.seen(ClaimEnded)} == {1, 3} - set(one.claims)


async def test_resolved_start_is_committed_before_its_claim_starts(autojump_clock: MockClock) -> None:
    """Otherwise, if the member died at once, the next owner would start at a later `newest`."""
    async with orders(2) as cluster, deadline() as nursery:
        one = FixedStarts({0: 0})
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
        member = await start_member(nursery, cluster, one, offset_initial="newest")
        await trio.sleep(10)
        assert claim_starts(member) == {0: (0, "handler")}
        cluster.clear_faults()
        await eventually(lambda: 1 in claim_starts(member))
        assert committed(cluster)["orders-1"] == 0


async def test_streams_get_started_claims_first_and_later_the_rest(autojump_clock: MockClock) -> None:
    async with two_brokers(6) as cluster, deadline() as nursery:
        withhold_offsets(cluster, {0, 5}, of=6)
        handler = Streaming(streams=2)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: len(claim_starts(member)) == 4)
        assert handler.partitions() == [[1, 2], [3, 4]]
        cluster.clear_faults()
        await eventually(lambda: len(claim_starts(member)) == 6)
        assert handler.partitions() == [[0, 1, 2], [3, 4, 5]]
