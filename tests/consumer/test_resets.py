"""Positions outside the log, moved by the policy. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from trio.testing import MockClock

from sarameya import OffsetOutOfRangeError, TopicPartition
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.observe import OffsetReset
from tests.group.kit import Recorder, committed, deadline, eventually, fill, orders, start_member

PARTITION = TopicPartition("orders", 0)


class From(Recorder):
    """Begins partition 0 at `offset`, and the others at 0."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset

    async def start_offset(self, partition: TopicPartition, committed: object) -> int:
        return self._offset if partition == PARTITION else 0


async def test_position_behind_the_log_moved_to_its_start_reads_all_of_it(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        for _ in range(5):
            cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        handler = From(100)
        await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await handler.received(50)
        assert handler.offsets("orders", 0) == list(range(50))


async def test_position_behind_the_log_moved_to_its_end_reads_what_comes(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 50)
        handler = From(100)
        member = await start_member(nursery, cluster, handler, offset_out_of_range="newest")
        await eventually(lambda: bool(member.seen(OffsetReset)))
        fill(cluster, 20)
        await handler.received(20)
        assert handler.offsets("orders", 0) == list(range(50, 70))


async def test_position_that_the_policy_chose_is_committed(autojump_clock: MockClock) -> None:
    """What comes while nobody is a member must not be skipped by resolving the policy anew."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        member = await start_member(nursery, cluster, From(100), offset_out_of_range="newest")
        await eventually(lambda: bool(member.seen(OffsetReset)))
        await member.close()
        assert committed(cluster) == {"orders-0": 10}


@pytest.mark.parametrize(("policy", "last_lookup"), [("fail", "newest"), ("oldest", "oldest")])
async def test_session_that_ends_as_the_lookup_is_answered_ends_well(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, policy: str, last_lookup: str
) -> None:
    find = OffsetLookup.find
    handler = From(99)

    async def find_and_end(self: OffsetLookup, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        found = await find(self, wanted)
        if wanted == {PARTITION: last_lookup} and len(handler.sessions) == 1:
            handler.sessions[0].end("in the turn of the answer")
        return found

    monkeypatch.setattr(OffsetLookup, "find", find_and_end)
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await handler.until(lambda: len(handler.sessions) == 2)
        if policy == "fail":  # the second session has the time to say it
            await member.ended.wait()
            assert isinstance(member.error, ExceptionGroup)
            (error,) = member.error.exceptions
            assert isinstance(error.__cause__, OffsetOutOfRangeError)
        else:
            await handler.received(3)
        assert handler.calls.count("cleanup") >= 1
