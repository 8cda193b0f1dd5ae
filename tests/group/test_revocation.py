"""Revocation by a cooperative member: the calls, and the time that they may take. Virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, RebalanceDeadlineError, Session, TopicPartition
from sarameya.observe import TaskStuck
from sarameya.protocol.versions import Api
from tests.group.kit import deadline, eventually, fill, orders
from tests.group.test_cooperative import Partitions, start


class Flushes(Partitions):
    """A recorder whose `partitions_revoked` takes the given seconds, and records its start and its end."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self._note("flushing")
        await trio.sleep(self.seconds)
        await super().partitions_revoked(session, partitions)

    @property
    def revoked(self) -> list[str]:
        return [call for call in self.calls if call.startswith("revoked")]


async def test_revocation_calls_run_though_claims_used_up_their_grace(autojump_clock: MockClock) -> None:
    class Deaf(Flushes):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            await trio.sleep_forever()

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Deaf(25.0), Partitions()
        first = await start(nursery, cluster, one, claim_grace=5.0, close_timeout=60.0)
        await one.until(lambda: one.calls.count("claim") == 2)
        await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 1)
        assert one.revoked == [f"revoked {two.claims[0]}"]
        assert first.error is None


async def test_revocation_past_the_deadline_is_raised(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Flushes(1000.0), Partitions()
        first = await start(nursery, cluster, one, rebalance_timeout=20.0)
        await one.until(lambda: len(one.claims) == 2)
        began = trio.current_time()
        await start(nursery, cluster, two, rebalance_timeout=20.0)
        await first.ended.wait()
        assert trio.current_time() - began < 45, "one timeout for the revoked partition, one for the rest"
        assert isinstance(first.error, ExceptionGroup)
        assert "partitions_revoked" in str(first.error.exceptions[0])
        assert not first.seen(TaskStuck)
        assert one.calls[-1] == "cleanup"
        await two.until(lambda: len(two.claims) == 2)


async def test_revocation_is_reported_once_despite_cancellation(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Flushes(1.0), Partitions()
        first = await start(nursery, cluster, one)
        await one.until(lambda: len(one.claims) == 2)
        await start(nursery, cluster, two)
        await one.until(lambda: "flushing" in one.calls)
        first.scope.cancel()
        await first.ended.wait()
        assert sorted(" ".join(one.revoked).replace("revoked", "").split()) == ["0", "1"]
        assert one.calls[-1] == "cleanup"


@pytest.mark.parametrize("lost", [False, True])
async def test_hanging_hook_is_named_and_leaves_time_for_cleanup(autojump_clock: MockClock, lost: bool) -> None:
    class Hangs(Flushes):
        async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await trio.sleep(self.seconds)

    async with orders(1) as cluster, deadline() as nursery:
        one = Hangs(1000.0)
        member = await start(nursery, cluster, one, close_timeout=5.0, rebalance_timeout=10.0)
        await one.until(lambda: bool(one.claims))
        if lost:
            cluster.fail_next(Api.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            member.group.close_nowait()
        await member.ended.wait()
        assert "cleanup" in one.calls
        assert isinstance(member.error, ExceptionGroup)
        (failure,) = member.error.exceptions
        assert isinstance(failure, RebalanceDeadlineError)
        assert ("partitions_lost" if lost else "partitions_revoked") in str(failure)
        assert not member.seen(TaskStuck)


async def test_mark_of_a_revoked_partition_is_refused(autojump_clock: MockClock) -> None:
    """Its next owner commits it. A late mark of this member must not be committed under the new generation."""
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one)
        await one.until(lambda: len(one.claims) == 2)
        await start(nursery, cluster, two)
        await two.until(lambda: len(two.claims) == 1)
        session, kept = one.sessions[-1], 1 - two.claims[0]
        session.mark_offset("orders", kept, 1)
        with pytest.raises(ValueError, match="is not claimed in this session"):
            session.mark_offset("orders", two.claims[0], 1)


async def test_call_started_at_the_revocation_deadline_is_not_stuck(autojump_clock: MockClock) -> None:
    """The last commit of the revoked partitions fails until its deadline. The next call has its own deadline."""

    class Slow(Partitions):
        async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await trio.sleep(2)
            await super().partitions_assigned(session, partitions)

    async with orders(4) as cluster, deadline() as nursery:
        one, two = Slow(), Partitions()
        first = await start(nursery, cluster, one, rebalance_timeout=20.0, client_id="one")
        await one.until(lambda: len(one.claims) == 4)
        await trio.sleep(5)
        for partition in range(4):
            fill(cluster, 3, partition)
        await one.received(12)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None, client_id="one")
        second = await start(nursery, cluster, two, rebalance_timeout=20.0)
        await one.until(lambda: any(call.startswith("revoked") for call in one.calls))
        await trio.sleep(10)
        await second.close()  # the partitions that `one` revokes are assigned to it again
        await eventually(lambda: first.ended.is_set() or one.calls.count("assigned 2 3") == 1)
        assert not first.seen(TaskStuck)
        assert not first.ended.is_set()


async def test_session_ending_during_its_join_releases_its_partitions(
    autojump_clock: MockClock,
) -> None:
    """The join reported them as owned. Other members wait for a join that no longer does."""
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Partitions(), Partitions()
        await start(nursery, cluster, one, client_id="one")
        await one.until(lambda: len(one.claims) == 4)
        cluster.delay_next(Api.SYNC_GROUP, 2.0, client_id="one")
        await start(nursery, cluster, two)
        await eventually(lambda: cluster.describe_group("g").generation == 2)
        one.sessions[-1].end("enough")
        await trio.sleep(30)
        assert sorted(one.claims + two.claims) == [0, 1, 2, 3]
