"""Start offsets of a group without commits: by policy, time or duration, for all topics or for one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import CommittedOffset, NoCommittedOffsetError, TopicConfig, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.net.log_offsets import LOG_END
from sarameya.observe import ClaimStarted
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, Running, committed, deadline, eventually, failure, fill, start_member
from tests.group.standalone_kit import ORDERS, Watched, offsets_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def wall_clock() -> float:
    """Return a time of day that starts at noon in each test."""
    return NOON.timestamp() + trio.current_time()


def clocked(topics: dict[str, int] | None = None, brokers: int = 1) -> EmbeddedCluster:
    return EmbeddedCluster(
        topics=topics or {"orders": 1}, brokers=brokers, in_memory=True, seed=1, wall_clock=wall_clock
    )


def hourly(cluster: EmbeddedCluster, count: int, partition: int = 0) -> None:
    """Produce one message for each hour; the last one is one hour old."""
    for n in range(count):
        written = NOON - timedelta(hours=count - n)
        cluster.produce("orders", partition, b"%d" % n, timestamp=int(written.timestamp() * 1000))


def claim_starts(member: Running) -> list[tuple[str, int, str]]:
    return sorted((str(e.partition), e.offset, e.why) for e in member.seen(ClaimStarted))


@pytest.mark.parametrize(
    ("policy", "first", "why"),
    [
        (NOON - timedelta(hours=3), 2, "timestamp:2026-01-31T09:00:00Z"),
        ("timestamp:2026-01-31T09:00:00.001Z", 3, "timestamp:2026-01-31T09:00:00.001000Z"),
        ("timestamp:1970-01-01T00:00:00Z", 0, "timestamp:1970-01-01T00:00:00Z"),
        (timedelta(hours=2), 3, "by_duration:PT2H"),
        ("by_duration:P1D", 0, "by_duration:P1D"),
        ("by_duration:PT59M", 5, "by_duration:PT59M"),
        (NOON + timedelta(days=1), 5, "timestamp:2026-02-01T12:00:00Z"),
        (timedelta.max, 0, "by_duration:P999999999DT23H59M59.999999S"),
    ],
    ids=str,
)
async def test_new_group_starts_at_the_first_message_since_a_time(
    autojump_clock: MockClock, policy: Any, first: int, why: str
) -> None:
    """The group starts at the log end if every message is older."""
    async with clocked() as cluster, deadline() as nursery:
        hourly(cluster, 5)
        handler = Recorder()
        # The wall clock stands still: a little virtual time passes before the offset is looked up.
        member = await start_member(nursery, cluster, handler, offset_initial=policy, wall_clock=NOON.timestamp)
        await eventually(lambda: committed(cluster) == {"orders-0": first})
        assert claim_starts(member) == [("orders-0", first, why)]
        fill(cluster, 1)
        await handler.received(6 - first)
        assert handler.offsets("orders", 0) == list(range(first, 6))


async def test_duration_counts_from_the_wall_clock_of_the_start(autojump_clock: MockClock) -> None:
    async with clocked() as cluster, deadline(100_000) as nursery:
        hourly(cluster, 5)
        await trio.sleep(3600)
        member = await start_member(
            nursery, cluster, Recorder(), offset_initial=timedelta(hours=3.5), wall_clock=wall_clock
        )
        await eventually(lambda: bool(claim_starts(member)))
        assert claim_starts(member) == [("orders-0", 3, "by_duration:PT3H30M")]


async def test_start_by_a_time_is_looked_up_once(autojump_clock: MockClock) -> None:
    async with clocked() as cluster, deadline(100_000) as nursery:
        hourly(cluster, 5)
        options: dict[str, Any] = {"offset_initial": timedelta(hours=2.5), "wall_clock": wall_clock}

        async def never(*_: object) -> None:
            await trio.sleep_forever()

        first = await start_member(nursery, cluster, Recorder(never), claim_grace=0, **options)
        await eventually(lambda: bool(claim_starts(first)))
        await first.close()
        await trio.sleep(7200)
        second = await start_member(nursery, cluster, Recorder(), **options)
        await eventually(lambda: bool(claim_starts(second)))
        assert claim_starts(second) == [("orders-0", 3, "committed")]


async def test_message_written_during_a_look_up_is_not_skipped(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message is older than the time. The next one is written while that response is on its way."""
    async with clocked() as cluster, deadline() as nursery:
        hourly(cluster, 5)

        def write_meanwhile(request: Any, _: Any) -> None:
            if request.topics[0].partitions[0].timestamp > LOG_END:
                fill(cluster, 1)

        edit_answers(monkeypatch, Api.LIST_OFFSETS, write_meanwhile)
        handler = Recorder()
        await start_member(nursery, cluster, handler, offset_initial=timedelta(minutes=1), wall_clock=wall_clock)
        await handler.received(1)
        assert handler.offsets("orders", 0) == [5]


# -- fail ---------------------------------------------------------------------------------------------------


async def test_new_group_with_policy_fail_reads_nothing(
    autojump_clock: MockClock,
) -> None:
    async with clocked({"orders": 2}) as cluster, deadline() as nursery:
        hourly(cluster, 5)
        async with Watched(cluster, "g") as consumer, consumer.consume_partition("orders", 1, 0):
            consumer.mark_offset("orders", 1, 0)
            await consumer.commit()
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_initial="fail")
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, NoCommittedOffsetError)
        assert (error.group, error.partitions) == ("g", (TopicPartition("orders", 0),))
        assert handler.calls == ["setup", "cleanup"]
        assert "orders-0" not in committed(cluster)


async def test_start_offset_of_the_handler_needs_no_policy(autojump_clock: MockClock) -> None:
    class FromThree(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            return 3 if committed is None else None

    async with clocked() as cluster, deadline() as nursery:
        hourly(cluster, 5)
        handler = FromThree()
        await start_member(nursery, cluster, handler, offset_initial="fail")
        await handler.received(2)
        assert handler.offsets("orders", 0) == [3, 4]


# -- one topic ----------------------------------------------------------------------------------------------


async def test_topic_starts_by_its_own_policy(autojump_clock: MockClock) -> None:
    async with clocked({"orders": 1, "returns": 1, "visits": 1}) as cluster, deadline() as nursery:
        hourly(cluster, 5)
        fill(cluster, 4, topic="returns")
        fill(cluster, 3, topic="visits")
        own = {
            "orders": TopicConfig(offset_initial=timedelta(minutes=90)),
            "returns": TopicConfig(offset_initial="newest"),
        }
        member = await start_member(
            nursery,
            cluster,
            Recorder(),
            topics=("orders", "returns", "visits"),
            topic_configs=own,
            wall_clock=wall_clock,
        )
        await eventually(lambda: len(claim_starts(member)) == 3)
        assert [(name, offset) for name, offset, _ in claim_starts(member)] == [
            ("orders-0", 4),
            ("returns-0", 4),
            ("visits-0", 0),
        ]


# -- without a group protocol -------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [timedelta(hours=2), "by_duration:PT2H", NOON - timedelta(hours=2)], ids=str)
async def test_partition_is_read_from_a_given_time_on(autojump_clock: MockClock, start: Any) -> None:
    async with clocked() as cluster, deadline():
        hourly(cluster, 5)
        async with Watched(cluster, wall_clock=NOON.timestamp) as consumer:
            async with consumer.consume_partition("orders", 0, start) as claim:
                assert await offsets_of(claim, 2) == [3, 4]
            assert await consumer.offsets(ORDERS[:1], start) == {ORDERS[0]: 3}


async def test_partition_without_other_start_uses_its_topics_policy(autojump_clock: MockClock) -> None:
    async with clocked() as cluster, deadline():
        hourly(cluster, 5)
        own = {"orders": TopicConfig(offset_initial=timedelta(hours=2))}
        for group in (None, "g"):
            async with Watched(cluster, group, wall_clock=NOON.timestamp, topics=own) as consumer:
                async with consumer.consume_partition("orders", 0) as claim:
                    assert await offsets_of(claim, 2) == [3, 4]


@pytest.mark.parametrize("group", [None, "g"])
async def test_partition_with_policy_fail_needs_a_start_offset(autojump_clock: MockClock, group: str | None) -> None:
    async with clocked() as cluster, deadline():
        hourly(cluster, 5)
        async with Watched(cluster, group, offset_initial="fail") as consumer:
            with pytest.raises(NoCommittedOffsetError) as caught:
                async with consumer.consume_partition("orders", 0):
                    pytest.fail("started without a start offset")
            assert caught.value.group == (group or "")
            with pytest.raises(ValueError, match="it is not a start offset"):
                async with consumer.consume_partition("orders", 0, "fail"):
                    pytest.fail("started without a start offset")
            async with consumer.consume_partition("orders", 0, 4) as claim:
                assert await offsets_of(claim, 1) == [4]
