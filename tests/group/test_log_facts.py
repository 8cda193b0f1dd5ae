"""A session's facts about its logs before claims start: offset ranges and ends of leader epochs. Virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommittedOffset,
    ErrorCode,
    LogRange,
    Session,
    TopicAuthorizationError,
    TopicPartition,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol import versions
from sarameya.protocol.versions import Api, VersionRange
from tests.consumer.kit import edit_answers, on_request
from tests.consumer.test_epoch_checks import know_nothing
from tests.group.kit import (
    Recorder,
    deadline,
    eventually,
    failure,
    fill,
    orders,
    start_member,
)

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
ORDERS_0 = PARTITIONS[0]

LookUp = Callable[[Session], Awaitable[Any]]


class LookUpRecorder(Recorder):
    """A recorder that keeps the `results` of `look_up` in `partitions_assigned`, or in `start_offset` if `late`."""

    def __init__(self, look_up: LookUp, *, late: bool = False) -> None:
        super().__init__()
        self.results: list[Any] = []
        self.claims: list[Claim] = []
        self._look_up = look_up
        self._late = late

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        if not self._late:
            self.results.append(await self._look_up(session))

    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
        if self._late:
            self.results.append(await self._look_up(self.sessions[-1]))
        return None

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claims.append(claim)
        await super().consume_claim(session, claim)


async def look_up_once(nursery: trio.Nursery, cluster: EmbeddedCluster, look_up: LookUp, **options: Any) -> Any:
    """Return the result of `look_up` before the claims of a member start."""
    handler = LookUpRecorder(look_up)
    await start_member(nursery, cluster, handler, **options)
    await eventually(lambda: bool(handler.results))
    return handler.results[0]


# -- log ranges ------------------------------------------------------------------------------------------


async def ranges_of_all(session: Session) -> dict[TopicPartition, LogRange]:
    return await session.log_ranges(PARTITIONS)


async def ranges_of_two(session: Session) -> dict[TopicPartition, LogRange]:
    return await session.log_ranges(PARTITIONS[:2])


def watch(monkeypatch: pytest.MonkeyPatch, api: Api) -> list[int]:
    """Return a list of the brokers that receive a request of `api` from now on."""
    requested: list[int] = []
    on_request(monkeypatch, api, lambda call: requested.append(call.node_id))
    return requested


async def test_log_ranges_are_requested_from_each_leader_together(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with orders(4, brokers=2) as cluster, deadline() as nursery:
        for number in range(4):
            fill(cluster, 10 + number, number)
        cluster.delete_records("orders", 2, 7)
        cluster.produce_transactional("orders", 3, b"open", producer_id=1)
        requested = watch(monkeypatch, Api.LIST_OFFSETS)
        ranges = await look_up_once(nursery, cluster, ranges_of_all, isolation_level="read_committed")
        assert [ranges[tp] for tp in PARTITIONS] == [LogRange(0, 10), LogRange(0, 11), LogRange(7, 12), LogRange(0, 14)]
        assert sorted(requested[:4]) == [0, 0, 1, 1], "starts and ends"


async def test_log_range_of_a_partition_without_leader_is_retried(autojump_clock: MockClock) -> None:
    async with orders(4, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 5)
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE, None, broker_id=0)
        handler = LookUpRecorder(ranges_of_all)
        await start_member(nursery, cluster, handler)
        await trio.sleep(60)
        assert handler.results == []
        cluster.clear_faults()
        await eventually(lambda: bool(handler.results))
        assert handler.results[0][ORDERS_0] == LogRange(0, 5)


@pytest.mark.parametrize("partition", [("orders", 4), ("other", 0)])
async def test_facts_of_an_unclaimed_partition_are_refused(
    autojump_clock: MockClock, partition: tuple[str, int]
) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        session, foreign = handler.sessions[0], TopicPartition(*partition)
        with pytest.raises(ValueError, match=f"{foreign} is not claimed"):
            await session.log_ranges([ORDERS_0, foreign])
        with pytest.raises(ValueError, match=f"{foreign} is not claimed"):
            await session.epoch_ends({foreign: 0})
        assert await session.log_ranges([]) == {}
        assert await session.epoch_ends({}) == {}


async def test_end_of_an_unknown_epoch_is_not_requested(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = watch(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH)
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        assert await look_up_once(nursery, cluster, epochs_of(-1, -1)) == [None, None]
        assert requested == []


# -- ends of leader epochs -------------------------------------------------------------------------------


def epochs_of(*epochs: int) -> LookUp:
    async def look_up(session: Session) -> list[int | None]:
        ends = await session.epoch_ends(dict(zip(PARTITIONS, epochs, strict=False)))
        assert list(ends) == PARTITIONS[: len(epochs)]
        return list(ends.values())

    return look_up


async def test_epoch_ends_at_the_next_epoch_or_at_the_log_end(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = watch(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH)
    async with orders(4, brokers=2) as cluster, deadline() as nursery:
        for number in range(4):
            for leader in (number + 1, number):
                fill(cluster, 5, number)
                cluster.move_leader("orders", number, leader % 2)
            fill(cluster, 5, number)
        first = cluster.log("orders", 0).leader_epoch - 2
        ends = await look_up_once(nursery, cluster, epochs_of(first, first + 1, first + 2, -1))
        assert ends == [5, 10, 15, None]
        assert sorted(requested) == [0, 1], "each leader once, none for an unknown epoch"


async def test_end_of_a_truncated_epoch_is_that_of_the_earlier_one(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with orders(1, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 5)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        lost = cluster.log("orders", 0).leader_epoch
        cluster.truncate("orders", 0, 3)
        cluster.move_leader("orders", 0, 0)
        fill(cluster, 20)
        requested: list[Any] = []
        on_request(
            monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH, lambda call: requested.extend(call.body.topics[0].partitions)
        )
        assert await look_up_once(nursery, cluster, epochs_of(lost)) == [3]
        (partition,) = requested
        assert partition.current_leader_epoch == lost + 1, "a deposed leader that does not know it yet would refuse"


@pytest.mark.parametrize("how", ["too old", "knows nothing"])
async def test_epoch_end_unknown_to_the_broker_is_none(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "too old":
        monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.OFFSET_FOR_LEADER_EPOCH, VersionRange(99, 99))
    else:
        edit_answers(monkeypatch, Api.OFFSET_FOR_LEADER_EPOCH, know_nothing)
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 5)
        assert await look_up_once(nursery, cluster, epochs_of(0, 0)) == [None, None]


def leave_out(request: Any, answer: Any) -> None:
    answer.topics = []


@pytest.mark.parametrize("fault", ["refused", "left out", "moved"])
async def test_epoch_end_is_requested_until_it_is_returned(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 5, 0)
        fill(cluster, 6, 1)
        epoch = cluster.log("orders", 0).leader_epoch
        handler = LookUpRecorder(epochs_of(epoch, epoch), late=True)
        with monkeypatch.context() as patched:
            match fault:
                case "refused":
                    cluster.fail_next(Api.OFFSET_FOR_LEADER_EPOCH, ErrorCode.LEADER_NOT_AVAILABLE, 3, broker_id=0)
                case "left out":
                    edit_answers(patched, Api.OFFSET_FOR_LEADER_EPOCH, leave_out)
                case "moved":
                    cluster.drop_next(Api.OFFSET_FOR_LEADER_EPOCH, hang_up=False, broker_id=0)
            await start_member(nursery, cluster, handler)
            await trio.sleep(5)
            if fault == "moved":
                cluster.move_leader("orders", 0, 1)
        await eventually(lambda: len(handler.results) == 2)
        assert handler.results == [[5, 6]] * 2


@pytest.mark.parametrize("look_up", [epochs_of(0, 0), ranges_of_two])
async def test_facts_of_a_partition_without_leader_are_retried(autojump_clock: MockClock, look_up: LookUp) -> None:
    async with EmbeddedCluster(brokers=2, in_memory=True, seed=1) as cluster, deadline() as nursery:
        cluster.create_topic("orders", 2, replication_factor=1)
        cluster.move_coordinator("g", 0)
        await cluster.stop_broker(1)
        handler = LookUpRecorder(look_up)
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(60)
        assert (len(handler.sessions), handler.results) == (1, [])
        assert "the partition has no leader" in str(member.events[-1])
        await cluster.start_broker(1)
        with trio.fail_after(10):
            await eventually(lambda: len(handler.results) == 1)


async def test_epoch_ends_raise_permanent_errors(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, 5)
        cluster.fail_next(Api.OFFSET_FOR_LEADER_EPOCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        member = await start_member(nursery, cluster, LookUpRecorder(epochs_of(0)))
        await member.ended.wait()
        assert isinstance(failure(member), TopicAuthorizationError)
