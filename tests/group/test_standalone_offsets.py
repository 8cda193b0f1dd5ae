"""A group's committed offsets, read and written by a consumer that is not a member. In memory, under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    CommitError,
    CommittedOffset,
    ConfigError,
    ErrorCode,
)
from sarameya.consumer.resets import OUT_OF_RANGE
from sarameya.observe import ClaimStarted, CommitFailed, OffsetReset
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, committed, deadline, eventually, fill, orders, start_member
from tests.group.standalone_kit import ORDERS, Watched, offsets_of, take


async def test_new_group_commits_the_start_of_its_policy(
    autojump_clock: MockClock,
) -> None:
    """Otherwise the next consumer resolves it again, and skips messages that were written meanwhile."""
    async with orders() as cluster, deadline():
        fill(cluster, 5)
        async with Watched(cluster, "g", autocommit=False) as consumer:
            async with consumer.consume_partition("orders", 0) as claim:
                assert claim.position == 5
                assert committed(cluster) == {"orders-0": 5}
        fill(cluster, 3)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0) as claim:
            assert await offsets_of(claim, 3) == [5, 6, 7]
        assert [event.why for event in consumer.seen(ClaimStarted)] == ["committed"]


@pytest.mark.parametrize("start", [3, "oldest", "newest"])
async def test_explicit_start_is_not_committed(autojump_clock: MockClock, start: Any) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 5)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0, start):
            await trio.sleep(10)
        assert committed(cluster) == {}


async def test_marks_are_committed_every_interval_and_at_the_end(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        fill(cluster, 10, 0)
        fill(cluster, 1, 1)
        async with Watched(cluster, "g", autocommit_interval=5.0) as consumer:
            async with consumer.consume_partitions(ORDERS[:2], "oldest") as claims:
                for message in await take(claims[ORDERS[0]], 4):
                    consumer.mark_message(message, "so far")
                batch = await anext(claims[ORDERS[1]].batches())
                consumer.mark_batch(batch)
                assert committed(cluster) == {}
                await trio.sleep(6)
                assert committed(cluster) == {"orders-0": 4, "orders-1": 1}
                assert cluster.committed("g")[ORDERS[0]].metadata == "so far"
                fill(cluster, 9, 1)
                consumer.mark_offset("orders", 0, 7)
            # The claim has ended, but the consumer is open: the partition can still be marked.
            consumer.mark_offset("orders", 1, 9)
        assert committed(cluster) == {"orders-0": 7, "orders-1": 9}


async def test_without_autocommit_only_commit_commits(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, "g", autocommit=False) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest"):
                consumer.mark_offset("orders", 0, 4)
                await trio.sleep(60)
                assert committed(cluster) == {}
            await consumer.commit()  # also after the block in which the marks were made
            assert committed(cluster) == {"orders-0": 4}
            consumer.mark_offset("orders", 0, 8)
        assert committed(cluster) == {"orders-0": 4}


async def test_partition_read_again_starts_after_its_marks(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, "g", autocommit_interval=3600.0) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest"):
                consumer.mark_offset("orders", 0, 4)
            async with consumer.consume_partition("orders", 0) as claim:
                assert claim.position == 4


async def test_uncommitted_marks_outlive_their_block(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, "g", autocommit=False, offset_initial="oldest") as consumer:
            async with consumer.consume_partition("orders", 0, "oldest"):
                consumer.mark_offset("orders", 0, 4)
            # Nothing is committed, so it starts by the policy. The mark is neither committed nor lost.
            async with consumer.consume_partition("orders", 0) as claim:
                assert claim.position == 0
                assert committed(cluster) == {}
            await consumer.commit()
            assert committed(cluster) == {"orders-0": 4}


async def test_commit_of_a_start_does_not_commit_other_marks(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, "g", autocommit=False) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest"):
                consumer.mark_offset("orders", 0, 4)
                async with consumer.consume_partition("orders", 1):
                    assert committed(cluster) == {"orders-1": 0}


async def test_marks_move_forward_and_resets_backward(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0, 0):
            consumer.mark_offset("orders", 0, 8)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0, 2):
            consumer.mark_offset("orders", 0, 3)
            await consumer.commit()
            assert committed(cluster) == {"orders-0": 8}
            consumer.reset_offset("orders", 0, 2)
            consumer.mark_offset("orders", 0, 3)
            assert await consumer.committed(ORDERS[:1]) == {ORDERS[0]: CommittedOffset(8)}
        assert committed(cluster) == {"orders-0": 3}


async def test_committed_has_none_for_uncommitted_partitions(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline():
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 0, 0):
            consumer.mark_offset("orders", 0, 0, "none yet")
            await consumer.commit()
            assert await consumer.committed(ORDERS[:2]) == {ORDERS[0]: CommittedOffset(0, "none yet"), ORDERS[1]: None}


async def test_reset_position_moves_the_marks_back(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 10)
        async with Watched(cluster, "g", offset_out_of_range="oldest") as consumer:
            async with consumer.consume_partition("orders", 0, 100) as claim:
                consumer.mark_offset("orders", 0, 100)
                await consumer.commit()
                assert await offsets_of(claim, 10) == list(range(10))
                assert consumer.seen(OffsetReset) == [OffsetReset(ORDERS[0], 100, 0, "oldest", OUT_OF_RANGE, 0, 10, 0)]
        assert committed(cluster) == {"orders-0": 0}


async def test_partition_that_was_never_read_cannot_be_marked(autojump_clock: MockClock) -> None:
    async with orders() as cluster, Watched(cluster, "g") as consumer:
        with pytest.raises(ValueError, match="orders-0 cannot be marked: this consumer has not read it"):
            consumer.mark_offset("orders", 0, 1)


# -- a group in use -----------------------------------------------------------------------------------


async def test_group_in_use_refuses_commits_with_a_clear_error(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(10)
        await eventually(lambda: committed(cluster) == {"orders-0": 10})
        async with Watched(cluster, "g", autocommit=False) as consumer:
            async with consumer.consume_partition("orders", 0) as claim:
                assert claim.position == 10  # reading the group's commits does no harm
                consumer.mark_offset("orders", 0, 42)
                with pytest.raises(CommitError, match="the group is in use by subscribed members") as caught:
                    await consumer.commit()
                assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
                assert committed(cluster) == {"orders-0": 10}
                await member.close()
                await consumer.commit()
                assert committed(cluster) == {"orders-0": 42}


async def test_group_in_use_without_commits_fails_at_the_start(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        cluster.create_topic("other")
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(CommitError, match="the group is in use by subscribed members"):
            async with Watched(cluster, "g", autocommit=False) as consumer, consumer.consume_partition("other", 0):
                pass


async def test_autocommit_to_a_group_in_use_is_reported_and_raised(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        consumer = Watched(cluster, "g")

        async def read_on() -> None:
            async with consumer, consumer.consume_partition("orders", 0, "oldest"):
                consumer.mark_offset("orders", 0, 1)
                await trio.sleep(2.5)

        with pytest.raises(CommitError, match="the group is in use by subscribed members"):
            await read_on()
        failures = consumer.seen(CommitFailed)
        assert len(failures) == 2
        assert "in use by subscribed members" in failures[0].cause


async def test_commit_without_a_member_has_no_instance_id(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str | None, str, int]] = []

    def record(request: Any, _: Any) -> None:
        sent.append((request.group_instance_id, request.member_id, request.generation_id_or_member_epoch))

    async with orders() as cluster, deadline():
        edit_answers(monkeypatch, Api.OFFSET_COMMIT, record)
        async with Watched(cluster, "g", group_instance_id="one") as consumer:
            async with consumer.consume_partition("orders", 0):
                pass
        assert sent == [(None, "", -1)]


# -- without a group ----------------------------------------------------------------------------------


async def test_marks_and_commits_without_a_group_id_are_refused(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline(), Watched(cluster) as consumer:
        fill(cluster, 1)
        async with consumer.consume_partition("orders", 0, "oldest") as claim:
            (message,) = await take(claim, 1)
            for attempt in (
                lambda: consumer.mark_message(message),
                lambda: consumer.mark_offset("orders", 0, 1),
                lambda: consumer.reset_offset("orders", 0, 0),
            ):
                with pytest.raises(ConfigError, match="group_id"):
                    attempt()
            with pytest.raises(ConfigError, match="group_id"):
                await consumer.commit()
            with pytest.raises(ConfigError, match="group_id"):
                await consumer.committed(ORDERS[:1])
        with pytest.raises(ConfigError, match="group_id"):
            async with consumer.consume_partition("orders", 0, "committed"):
                pass


async def test_reset_without_a_group_id_continues_reading(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 3)
        async with Watched(cluster, offset_out_of_range="oldest") as consumer:
            async with consumer.consume_partition("orders", 0, 100) as claim:
                assert await offsets_of(claim, 3) == [0, 1, 2]
