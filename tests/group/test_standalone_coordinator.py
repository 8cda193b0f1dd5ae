"""The coordinator of a group, for a consumer that is not a member: found, followed, and waited for with a limit.

In memory, under virtual time.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    ErrorCode,
    GroupAuthorizationError,
    RequestTimeoutError,
    TopicPartition,
)
from sarameya.observe import CommitFailed, Committed
from sarameya.protocol.versions import Api
from tests.group.kit import CutOff, committed, deadline, fill, orders
from tests.group.standalone_kit import ORDERS, Watched


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.OFFSET_FETCH])
async def test_unauthorized_group_is_an_error_at_the_start(autojump_clock: MockClock, api: Api) -> None:
    async with orders() as cluster, deadline():
        cluster.fail_next(api, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        async with Watched(cluster, "g") as consumer:
            with pytest.raises(GroupAuthorizationError, match="grant this principal READ"):
                async with consumer.consume_partition("orders", 0):
                    pass
            async with consumer.consume_partition("orders", 0) as claim:
                assert claim.position == 0


async def test_coordinator_is_retried_until_it_is_available(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 5)
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0):
            consumer.mark_offset("orders", 0, 3)
            cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2)
            await consumer.commit()
        assert committed(cluster) == {"orders-0": 3}


async def test_coordinator_that_moves_or_stops_is_followed(autojump_clock: MockClock) -> None:
    async with orders(brokers=3) as cluster, deadline():
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0):
            for offset, broker in enumerate([1, 2, 0], start=1):
                cluster.move_coordinator("g", broker)
                consumer.mark_offset("orders", 0, offset)
                await consumer.commit()
                assert committed(cluster) == {"orders-0": offset}
            await cluster.stop_broker(0)
            consumer.mark_offset("orders", 0, 9)
            await consumer.commit()
            cluster.disconnect()
            consumer.mark_offset("orders", 0, 10)
        assert committed(cluster) == {"orders-0": 10}
        assert max(event.offsets[ORDERS[0]] for event in consumer.seen(Committed)) == 10


async def test_silent_coordinator_delays_the_end_by_close_timeout(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline():
        cut = CutOff(cluster.transport)

        async def read_and_cut() -> None:
            async with Watched(cluster, "g", transport=cut, close_timeout=7.0) as consumer:
                async with consumer.consume_partition("orders", 0):
                    consumer.mark_offset("orders", 0, 3)
                    cut.alive = False
                    began.append(trio.current_time())

        began: list[float] = []
        with pytest.raises(RequestTimeoutError, match=r"last commit for group 'g'.*close_timeout \(7 s\)"):
            await read_and_cut()
        assert trio.current_time() - began[0] == pytest.approx(7.0)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_failing_last_commit_does_not_hide_the_blocks_error(autojump_clock: MockClock, how: str) -> None:
    async with orders() as cluster, deadline():
        consumer = Watched(cluster, "g")

        async def read() -> None:
            async with consumer, consumer.consume_partition("orders", 0):
                consumer.mark_offset("orders", 0, 3)
                cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID)
                if how == "fails":
                    raise KeyError("mine")
                await trio.sleep_forever()

        if how == "fails":
            with pytest.raises(KeyError, match="mine"):
                await read()
        else:
            with trio.move_on_after(0.5) as scope:
                await read()
            assert scope.cancelled_caught
        assert [event.group for event in consumer.seen(CommitFailed)] == ["g"]


async def test_cancelled_block_still_commits_its_marks(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 5)
        with trio.move_on_after(0.5):
            async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0, "oldest") as claim:
                async for message in claim:
                    consumer.mark_message(message)
        assert committed(cluster) == {"orders-0": 5}


async def test_waiting_call_ends_when_the_consumer_is_closed(
    autojump_clock: MockClock,
) -> None:
    outcomes: list[str] = []

    async def start_claim(partition: TopicPartition) -> None:
        try:
            async with consumer.consume_partitions([partition]):
                raise AssertionError
        except RuntimeError as error:
            outcomes.append(str(error))

    async with orders(2) as cluster, deadline() as nursery:
        cut = CutOff(cluster.transport)
        async with Watched(cluster, "g", transport=cut) as consumer:
            await consumer.topic_partitions("orders")
            cut.alive = False
            for partition in ORDERS[:2]:
                nursery.start_soon(start_claim, partition)
            await trio.sleep(1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(outcomes) == 2
        assert all("inside its block" in outcome for outcome in outcomes)
