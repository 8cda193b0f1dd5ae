"""Sessions that span generations: a cooperative assignor, over the in-memory cluster under virtual time (KIP-429)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, Message, Session, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.observe import ClaimEnded, ClaimStarted, PartitionsRevoked, SessionEnded, SessionStarted
from sarameya.protocol.versions import Api
from tests.group.kit import CutOff, Recorder, Running, committed, deadline, eventually, fill, orders, start_member

COOPERATIVE: dict[str, Any] = {"rebalance_strategies": ("cooperative-sticky",)}


class Partitions(Recorder):
    """A recorder that also records the calls about partitions."""

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"assigned {_numbers(partitions)}")

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"revoked {_numbers(partitions)}")

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"lost {_numbers(partitions)}")

    @property
    def claims(self) -> tuple[int, ...]:
        return self.sessions[-1].claims.get("orders", ()) if self.sessions else ()


def _numbers(partitions: Sequence[TopicPartition]) -> str:
    return " ".join(str(tp.partition) for tp in partitions)


async def start(
    nursery: trio.Nursery, cluster: EmbeddedCluster, handler: ConsumerGroupHandler, **options: Any
) -> Running:
    return await start_member(nursery, cluster, handler, **{**COOPERATIVE, **options})


async def produce_for(cluster: EmbeddedCluster, seconds: float, partitions: int = 4) -> None:
    """Produce a message to each partition every 0.1 s."""
    number = 0
    while number < seconds * 10:
        for partition in range(partitions):
            cluster.produce("orders", partition, b"%d" % number)
        number += 1
        await trio.sleep(0.1)


async def test_kept_partitions_are_read_while_the_others_move(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        first = await start(nursery, cluster, one)
        await one.until(lambda: len(one.claims) == 4)
        nursery.start_soon(produce_for, cluster, 30.0)
        await trio.sleep(5)
        second = await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 2)
        await one.received(40 * 4)
        await eventually(lambda: len(second.seen(ClaimStarted)) == 2)
        assert [e.partitions for e in first.seen(PartitionsRevoked)] == [
            tuple(TopicPartition("orders", p) for p in two.claims)
        ]
        assert len(first.seen(SessionStarted)) == 1
        assert first.seen(SessionEnded) == [], "the session continues"
        assert sorted(e.partition.partition for e in first.seen(ClaimEnded)) == list(two.claims)
        assert {e.partition.partition for e in second.seen(ClaimStarted)} == set(two.claims)
        assert one.calls.count("setup") == 1
        assert "cleanup" not in one.calls


async def test_kept_partition_never_waits_for_a_rebalance(autojump_clock: MockClock) -> None:
    """Each message of the kept partition is handled when it is produced, also in rebalances that others delay."""
    delays: dict[int, list[float]] = {0: [], 1: []}

    async def on_message(session: Session, claim: Claim, message: Message) -> None:
        delays[claim.partition].append(trio.current_time() - float(message.value or b"0"))

    async with orders(2) as cluster, deadline() as nursery:
        one = Recorder(on_message)
        await start(nursery, cluster, one)
        await one.until(lambda: len(one.sessions) == 1)

        async def produce() -> None:
            while True:
                for partition in range(2):
                    cluster.produce("orders", partition, b"%r" % trio.current_time())
                await trio.sleep(0.05)

        nursery.start_soon(produce)
        await trio.sleep(1)
        other = Partitions()
        for _ in range(3):
            two = await start(nursery, cluster, other)
            await trio.sleep(8)
            await two.close()
            await trio.sleep(8)
        kept = ({0, 1} - {message.partition for message in other.messages}).pop()
        assert other.messages
        assert len(delays[kept]) > 900
        assert max(delays[kept]) < 0.1


async def test_kept_partitions_commit_during_a_rebalance(autojump_clock: MockClock) -> None:
    """Commits do not wait for a join that the coordinator holds, and continue in the next generation."""
    async with orders(2) as cluster, deadline() as nursery:
        cut = CutOff(cluster.transport)
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one)
        await start(nursery, cluster, two, transport=cut, session_timeout=30.0, rebalance_timeout=40.0)
        await eventually(lambda: len(one.claims) == len(two.claims) == 1)
        kept = one.claims[0]
        cut.alive = False  # it will not rejoin: the join phase lasts until it expires
        three = Partitions()
        await start(nursery, cluster, three)
        await trio.sleep(10)
        assert cluster.describe_group("g").state is GroupState.PREPARING_REBALANCE
        fill(cluster, 5, kept)
        await trio.sleep(3)
        assert committed(cluster)[f"orders-{kept}"] == 5
        assert cluster.describe_group("g").state is GroupState.PREPARING_REBALANCE
        await eventually(lambda: len(one.claims) == len(three.claims) == 1)
        fill(cluster, 5, kept)
        await eventually(lambda: committed(cluster)[f"orders-{kept}"] == 10)
        assert one.calls.count("setup") == 1


async def test_revoked_partitions_are_committed_before_the_next_owner(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one, autocommit_interval=1000.0)
        await one.until(lambda: len(one.claims) == 4)
        for partition in range(4):
            fill(cluster, 3, partition)
        await one.received(12)
        await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 2)
        moved = " ".join(map(str, two.claims))
        assert one.calls[-1] == f"revoked {moved}"
        assert two.calls[:2] == ["setup", f"assigned {moved}"]
        await trio.sleep(5)
        assert two.messages == [], "what the first owner had read was committed"


async def test_autocommit_off_commits_nothing_when_partitions_move(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one, autocommit=False)
        await one.until(lambda: len(one.claims) == 2)
        for partition in range(2):
            fill(cluster, 3, partition)
        await one.received(6)
        await start(nursery, cluster, two)
        await two.received(3)
        assert len(two.messages) == 3, "read again, since nothing was committed"


async def test_partitions_of_a_leaving_member_go_to_the_others(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        first = await start(nursery, cluster, one)
        second = await start(nursery, cluster, two)
        await eventually(lambda: len(one.claims) == len(two.claims) == 2)
        kept = one.claims
        ended = len(first.seen(ClaimEnded))
        await second.close()
        await one.until(lambda: len(one.claims) == 4)
        assert set(kept) < set(one.claims)
        assert len(first.seen(ClaimEnded)) == ended, "no claim of the survivor ended"
        assert two.calls[-2:] == [f"revoked {' '.join(map(str, sorted(set(range(4)) - set(kept))))}", "cleanup"]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
async def test_lost_membership_loses_all_and_commits_nothing(autojump_clock: MockClock, code: ErrorCode) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one = Partitions()
        running = await start(nursery, cluster, one, autocommit_interval=1000.0)
        await one.until(lambda: len(one.claims) == 2)
        await eventually(lambda: len(committed(cluster)) == 2)  # the start offsets
        fill(cluster, 3)
        await one.received(3)
        cluster.fail_next(Api.HEARTBEAT, code)
        await one.until(lambda: len(one.sessions) == 2)
        again = one.calls.index("lost 0 1")
        assert one.calls[again : again + 3] == ["lost 0 1", "cleanup", "setup"]
        assert committed(cluster) == {"orders-0": 0, "orders-1": 0}
        await one.received(6)
        assert one.offsets("orders", 0) == [0, 1, 2, 0, 1, 2]
        assert running.error is None


@pytest.mark.parametrize("api", [Api.JOIN_GROUP, Api.SYNC_GROUP])
async def test_membership_lost_in_a_rebalance_stops_kept_claims(autojump_clock: MockClock, api: Api) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one)
        await one.until(lambda: len(one.claims) == 4)
        await start(nursery, cluster, two)
        await eventually(lambda: cluster.describe_group("g").state is GroupState.PREPARING_REBALANCE)
        cluster.fail_next(api, ErrorCode.UNKNOWN_MEMBER_ID, 1 if api is Api.JOIN_GROUP else 2)
        await one.until(lambda: any(call.startswith("lost") for call in one.calls))
        assert "lost 0 1 2 3" in one.calls
        await eventually(lambda: len(one.claims) == len(two.claims) == 2)
        fill(cluster, 3, one.claims[0])
        await one.until(lambda: len(one.offsets("orders", one.claims[0])) >= 3)


async def test_claim_that_returns_ends_the_session_and_rejoins(autojump_clock: MockClock) -> None:
    class Once(Partitions):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                self.messages.append(message)
                session.mark_message(message)
                self._note(None)
                if len(self.messages) == 1:
                    return

    async with orders(2) as cluster, deadline() as nursery:
        one = Once()
        await start(nursery, cluster, one)
        fill(cluster, 3)
        await one.received(3)
        assert one.offsets("orders", 0) == [0, 1, 2]
        assert one.calls.count("setup") == one.calls.count("cleanup") + 1 == 2


async def test_failure_during_a_rebalance_makes_the_member_leave(autojump_clock: MockClock) -> None:
    async def fail_late(session: Session, claim: Claim, message: Message) -> None:
        if message.value == b"bad":
            raise RuntimeError("cannot")

    async with orders(2) as cluster, deadline() as nursery:
        cut = CutOff(cluster.transport)
        one, two = Recorder(fail_late), Partitions()
        first = await start(nursery, cluster, one)
        await start(nursery, cluster, two, transport=cut, session_timeout=30.0, rebalance_timeout=40.0)
        await eventually(lambda: len(two.claims) == 1)
        await eventually(lambda: len(one.sessions[-1].claims.get("orders", ())) == 1)
        cut.alive = False
        await start(nursery, cluster, Partitions())
        await trio.sleep(5)
        kept = one.sessions[-1].claims["orders"][0]
        cluster.produce("orders", kept, b"good")
        cluster.produce("orders", kept, b"bad")
        await first.ended.wait()
        assert isinstance(first.error, ExceptionGroup)
        assert committed(cluster)[f"orders-{kept}"] == 1
        assert len(cluster.describe_group("g").members) <= 2, "it has left, though its join was pending"


async def test_slow_revoked_claim_is_cancelled_after_its_grace(
    autojump_clock: MockClock,
) -> None:
    async def hang(session: Session, claim: Claim, message: Message) -> None:
        if message.value == b"hang":
            await trio.sleep_forever()

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(hang), Partitions()
        first = await start(nursery, cluster, one, claim_grace=5.0)
        await one.until(lambda: len(one.sessions) == 1)
        for partition in range(2):
            cluster.produce("orders", partition, b"hang")
        await eventually(lambda: len(one.messages) == 2)
        began = trio.current_time()
        await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 1)
        assert trio.current_time() - began < 20
        moved = two.claims[0]
        assert [e.partition.partition for e in first.seen(ClaimEnded)] == [moved]
        assert first.error is None


async def test_session_has_the_generation_of_the_last_rebalance(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one)
        await one.until(lambda: len(one.claims) == 2)
        session = one.sessions[0]
        before = session.generation
        await start(nursery, cluster, two)
        await eventually(lambda: len(one.claims) == len(two.claims) == 1)
        assert session.generation == before + 2, "the first round revokes, the second one assigns"
        metadata = session.group_metadata
        assert (metadata.group_id, metadata.generation_id, metadata.member_id) == (
            "g",
            session.generation,
            session.member_id,
        )


async def test_hundred_rebalances_never_stop_kept_partitions(autojump_clock: MockClock) -> None:
    """Members come and go without committing. Messages of kept partitions are handled when they are produced."""
    delays: dict[int, list[float]] = {0: [], 1: [], 2: []}

    async def on_message(session: Session, claim: Claim, message: Message) -> None:
        delays[claim.partition].append(trio.current_time() - float(message.value or b"0"))

    async with orders(3) as cluster, deadline(20_000) as nursery:
        one = Partitions(on_message)
        first = await start(nursery, cluster, one)
        await one.until(lambda: len(one.claims) == 3)
        produced = 0

        @nursery.start_soon
        async def produce() -> None:
            nonlocal produced
            while True:
                for partition in delays:
                    cluster.produce("orders", partition, b"%r" % trio.current_time())
                produced += 1
                await trio.sleep(0.53)  # in step with nothing else in this test

        kept = set(one.claims)
        for _ in range(50):
            other = Partitions()
            running = await start(nursery, cluster, other, autocommit=False)
            await other.until(lambda other=other: len(other.claims) == 1)  # type: ignore[misc]
            kept &= set(one.claims)
            await running.close()
            await one.until(lambda: len(one.claims) == 3)
        assert one.sessions[0].generation >= 100
        assert len(kept) == 2
        for partition in kept:
            assert produced - 1 <= len(delays[partition]) <= produced
            assert one.offsets("orders", partition) == list(range(len(delays[partition])))
            assert max(delays[partition]) < 0.1
        assert not kept & {e.partition.partition for e in first.seen(ClaimEnded)}
        assert one.calls.count("setup") == 1


async def test_group_with_one_eager_assignor_is_eager(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        both = {"rebalance_strategies": ("cooperative-sticky", "range")}
        first = await start(nursery, cluster, one, **both)
        await one.until(lambda: len(one.claims) == 2)
        await start(nursery, cluster, two, **both)
        await eventually(lambda: len(one.claims) == len(two.claims) == 1)
        assert len(first.seen(SessionEnded)) == 1
        assert one.calls.count("setup") == 2
