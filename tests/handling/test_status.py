"""The status of partitions with concurrent messages: the message that blocks the commit, and the reason."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import Activity, Format, Message, MessageHandler, PartitionStatus, Retry, TopicPartition
from sarameya.group.delivery.report import Report
from sarameya.observe import HandlerOverdue, HandlerReturned
from sarameya.telemetry.prometheus import GroupCollector
from tests.group.kit import Running, deadline, eventually, orders, start_member

ZERO = TopicPartition("orders", 0)


class Waits(MessageHandler):
    """A handler that waits with messages of one key until `resume` is set."""

    ordering = "key"

    def __init__(self) -> None:
        self.resume = trio.Event()
        self.handled: list[int] = []

    async def handle(self, message: Message) -> None:
        if message.key == b"ann":
            await self.resume.wait()
        self.handled.append(message.offset)


def row(member: Running) -> PartitionStatus:
    (status,) = member.group.status().partitions
    return status


async def test_status_shows_the_lookup_of_a_schema(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_response(function: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("sarameya.formats.lookups.run_in_thread", no_response)
    async with orders(1) as cluster, deadline() as nursery:
        handler = Waits()
        handler.value_format = Format("avro", registry="http://registry:8081")
        member = await start_member(nursery, cluster, handler)
        cluster.produce("orders", 0, b"\0\0\0\0\1")
        await trio.sleep(5)
        assert row(member).reason == "looking up a schema in the registry; 1 in flight, the first is offset 0"


async def test_status_shows_a_stuck_message_while_others_are_handled(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Waits()
        member = await start_member(nursery, cluster, handler)
        cluster.produce_many("orders", 0, [(b"bob", b""), (b"ann", b""), (b"ann", b""), (b"eve", b"")])
        await trio.sleep(5)
        status = row(member)
        assert (status.activity, round(status.seconds)) == (Activity.IN_HANDLER, 5)
        assert (status.in_flight, status.retrying) == (2, 0)
        assert (status.oldest_offset, round(status.oldest_seconds), status.oldest_key) == (1, 5, "ann")
        assert status.reason == '2 in flight, the first is offset 1 with key "ann"'
        for _ in range(12):  # messages of other keys are no progress of this one
            cluster.produce_many("orders", 0, [(b"bob", b"")])
            await trio.sleep(5)
        (event,) = member.seen(HandlerOverdue)
        assert (event.partition, event.offset, event.last_offset) == (ZERO, 1, 1)
        assert row(member).overdue is not None
        registry = GroupCollector.of(member.group)
        values = {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}
        assert values["sarameya_partition_in_flight_records"] == 2
        assert values["sarameya_partition_oldest_in_flight_seconds"] == pytest.approx(row(member).oldest_seconds)
        handler.resume.set()
        await eventually(lambda: bool(member.seen(HandlerReturned)))
        status = row(member)
        assert (status.in_flight, status.oldest_offset, status.oldest_key) == (0, -1, "")
        assert status.activity is Activity.FETCHING
        assert sorted(handler.handled) == list(range(16))
        await member.close()


class Fails(MessageHandler):
    """A handler that fails for each message until its offset is in `recovered`."""

    ordering = "none"
    retry = Retry(attempts=100, backoff=50, backoff_max=50)

    def __init__(self) -> None:
        self.recovered: set[int] = set()

    async def handle(self, message: Message) -> None:
        if message.offset not in self.recovered:
            raise OSError("busy")


async def test_retries_are_counted_and_end_in_any_order(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline(2000) as nursery:
        handler = Fails()
        member = await start_member(nursery, cluster, handler)
        cluster.produce_many("orders", 0, [(b"\x00\xff" * 50, b"")])
        await trio.sleep(5)
        cluster.produce_many("orders", 0, [(None, b"")])
        await trio.sleep(5)
        status = row(member)
        assert (status.activity, status.attempt, status.attempts) == (Activity.RETRYING, 2, 100)
        assert (status.in_flight, status.retrying, status.oldest_key) == (2, 2, "\N{REPLACEMENT CHARACTER}" * 40)
        assert status.reason.startswith(
            "orders-0 offset 1: OSError: busy; 2 in flight, the first is offset 0 with key "
        )
        handler.recovered.add(0)
        await eventually(lambda: row(member).retrying == 1)
        handler.recovered.add(1)
        await eventually(lambda: row(member).in_flight == 0)
        await trio.sleep(1)
        assert row(member).activity is Activity.FETCHING
        await member.close()


async def test_status_shows_that_commit_metadata_is_full(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Waits()
        handler.concurrency = 1000
        member = await start_member(nursery, cluster, handler)
        cluster.produce_many("orders", 0, [(b"ann" if n % 2 else b"bob", b"") for n in range(2500)])
        await trio.sleep(30)
        status = row(member)
        assert 700 < status.in_flight < 1250
        assert "the first is offset 1 with key" in status.reason
        assert "reading waits for it, since the metadata of a commit has no room" in status.reason
        handler.resume.set()
        await eventually(lambda: row(member).in_flight == 0)
        assert len(handler.handled) == 2500
        await member.close()


async def test_status_shows_that_reading_waits_for_a_key(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Waits()
        handler.concurrency = 1
        member = await start_member(nursery, cluster, handler)
        cluster.produce_many("orders", 0, [(b"ann", b"")] * 100)
        await trio.sleep(5)
        assert row(member).reason == (
            '64 in flight, the first is offset 0 with key "ann"; no more messages are read before some of these are '
            "finished"
        )
        handler.resume.set()
        await eventually(lambda: len(handler.handled) == 100)


async def test_activities_can_exit_in_any_order() -> None:
    report = Report()
    first, second = report.doing(Activity.RETRYING, "first"), report.doing(Activity.RETRYING, "second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert report.doing_now is None
