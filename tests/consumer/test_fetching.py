"""Fetching, and delivery to claims. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    ConsumerGroupHandler,
    CorruptRecordError,
    DecompressionLimitError,
    ErrorCode,
    Message,
    MessageBatch,
    OffsetOutOfRangeError,
    Session,
    TopicPartition,
    UnsupportedFormatError,
)
from sarameya.consumer.resets import OUT_OF_RANGE
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import LeaderChanged, OffsetReset, Retrying
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import (
    Recorder,
    claim_failure,
    committed,
    deadline,
    eventually,
    fill,
    orders,
    start_member,
)

PARTITION = TopicPartition("orders", 0)


class Batches(ConsumerGroupHandler):
    """Reads batches. Each wait for one is cancelled after `patience` seconds, and started again."""

    def __init__(self, patience: float = float("inf")) -> None:
        self.batches: list[MessageBatch] = []
        self.timeouts = 0
        self._patience = patience

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        batches = claim.batches()
        while True:
            with trio.move_on_after(self._patience) as scope:
                try:
                    batch = await anext(batches)
                except StopAsyncIteration:
                    return
                self.batches.append(batch)
                session.mark_batch(batch)
            self.timeouts += scope.cancelled_caught

    def offsets(self) -> list[int]:
        return [m.offset for batch in self.batches for m in batch]


# -- delivery ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
async def test_every_codec_arrives_unchanged(autojump_clock: MockClock, codec: Codec) -> None:
    async with orders() as cluster, deadline() as nursery:
        headers = (("h", b"\xff\x00"), ("h", None), ("", b""))
        records = [(1_700_000_000_000 + i, b"k%d" % i, b"v" * i, headers) for i in range(100)]
        cluster.append("orders", 0, build([*records, (0, None, None, ())], codec=codec))
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(101)
        assert [m.offset for m in handler.messages] == list(range(101))
        assert [(m.timestamp, m.key, m.value, m.headers) for m in handler.messages[:100]] == records
        assert (handler.messages[100].key, handler.messages[100].value) == (None, None)


async def test_old_formats_in_one_log_arrive_in_order(autojump_clock: MockClock) -> None:
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

    def legacy(magic: int, first: int, codec: int) -> bytes:
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
        for i in range(3):
            # Inner offsets are relative in v1, absolute in v0 (KIP-31).
            builder.append(i if magic == 1 else first + i, 1000 + i, b"k", b"m%d-%d" % (magic, i))
        data = bytearray(builder.build())
        if codec:
            struct.pack_into(">q", data, 0, first + 2)
        elif magic == 1:
            at = 0
            for i in range(3):
                struct.pack_into(">q", data, at, first + i)
                at += 12 + struct.unpack_from(">i", data, at + 8)[0]
        return bytes(data)

    async with orders() as cluster, deadline() as nursery:
        offset = 0
        for magic in (0, 1):
            for codec in (0, 1):
                cluster.append_raw("orders", 0, legacy(magic, offset, codec), offset + 2)
                offset += 3
        cluster.produce("orders", 0, b"new")
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(13)
        assert [m.offset for m in handler.messages] == list(range(13))
        assert handler.values()[6:9] == [b"m1-0", b"m1-1", b"m1-2"]
        assert [m.timestamp for m in handler.messages[:3]] == [-1, -1, -1]
        assert [m.timestamp for m in handler.messages[6:9]] == [1000, 1001, 1002]


async def test_claim_starts_in_the_middle_of_a_batch(autojump_clock: MockClock) -> None:
    class FromSeven(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: object) -> int:
            return 7

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"%d" % i) for i in range(20)])
        handler = FromSeven()
        await start_member(nursery, cluster, handler)
        await handler.received(13)
        assert handler.offsets("orders", 0) == list(range(7, 20))


async def test_message_larger_than_every_fetch_limit_still_arrives(autojump_clock: MockClock) -> None:
    """KIP-74: the first batch of a response is complete, whatever its size."""
    async with orders() as cluster, deadline() as nursery:
        cluster.produce("orders", 0, b"x" * 500_000)
        fill(cluster, 2)
        handler = Recorder()
        await start_member(nursery, cluster, handler, fetch_max_bytes=1000, fetch_max_partition_bytes=1000)
        await handler.received(3)
        assert len(handler.messages[0].value or b"") == 500_000


async def test_claim_has_its_position_and_high_water_mark(autojump_clock: MockClock) -> None:
    seen: list[tuple[int, int]] = []

    async def note(session: Session, claim: Claim, message: Message) -> None:
        seen.append((claim.position, claim.high_water_mark))

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Recorder(note)
        await start_member(nursery, cluster, handler)
        await handler.received(3)
        assert seen == [(1, 3), (2, 3), (3, 3)]


# -- messages and batches --------------------------------------------------------------------------------------


async def test_small_record_batches_are_merged(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        for size in (3, 1, 4200, 4000, 5):
            cluster.produce_many("orders", 0, [(None, b"x")] * size)
        handler = Batches()
        await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.batches) == 3)
        assert [len(batch) for batch in handler.batches] == [4204, 4000, 5]
        assert [batch.next_offset for batch in handler.batches] == [4204, 8204, 8209]
        assert [batch.first_offset for batch in handler.batches] == [0, 4204, 8204]


async def test_cancelled_read_of_a_batch_loses_nothing(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Batches(patience=0.05)
        await start_member(nursery, cluster, handler)
        for i in range(50):
            cluster.produce("orders", 0, b"%d" % i)
            await trio.sleep(0.13)
        await eventually(lambda: len(handler.offsets()) == 50)
        assert handler.offsets() == list(range(50))
        assert handler.timeouts > 50


async def test_messages_and_batches_share_one_position(autojump_clock: MockClock) -> None:
    taken: list[object] = []

    class Both(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                taken.append(message.offset)
                if message.offset == 3:
                    break
            async for batch in claim.batches():
                taken.append([m.offset for m in batch])
                if batch.last_offset == 9:
                    break
            async for message in claim:
                taken.append((message.offset, claim.position))  # noqa: PERF401 - the position is read at each step

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        cluster.produce_many("orders", 0, [(None, b"x")] * 2)
        await start_member(nursery, cluster, Both())
        await eventually(lambda: len(taken) == 7)
        assert taken == [0, 1, 2, 3, [4, 5, 6, 7, 8, 9], (10, 11), (11, 12)]


async def test_interrupted_iteration_can_be_resumed(autojump_clock: MockClock) -> None:
    taken: list[int] = []

    class Stops(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            while not claim.has_ended:
                with trio.move_on_after(0.3):
                    async for message in claim:
                        taken.append(message.offset)
                        if len(taken) % 4 == 0:
                            break

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        await start_member(nursery, cluster, Stops())
        await trio.sleep(2)
        fill(cluster, 3)
        await eventually(lambda: len(taken) == 13)
        assert taken == list(range(13))


async def test_several_tasks_may_share_a_claim(autojump_clock: MockClock) -> None:
    taken: list[int] = []

    class Workers(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async def work() -> None:
                async for message in claim:
                    taken.append(message.offset)
                    await trio.sleep(0.5)

            async with trio.open_nursery() as workers:
                for _ in range(4):
                    workers.start_soon(work)

    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Workers())
        await trio.sleep(5)
        fill(cluster, 2)
        await trio.sleep(5)
        cluster.produce_many("orders", 0, [(None, b"x")] * 18)
        await eventually(lambda: len(taken) == 20)
        assert sorted(taken) == list(range(20))
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began < 1.5, "all tasks were notified of the end"
        assert member.error is None


# -- leaders and connections ----------------------------------------------------------------------------


async def test_moving_leader_is_followed_without_loss(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=3) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        for i in range(60):
            cluster.produce("orders", i % 2, b"%d" % i)
            if i % 10 == 5:
                cluster.move_leader("orders", i % 2, (i // 10) % 3)
            await trio.sleep(0.5)
        await handler.received(60)
        assert handler.offsets("orders", 0) == list(range(30))
        assert handler.offsets("orders", 1) == list(range(30))
        assert len(handler.sessions) == 1
        assert member.seen(LeaderChanged)


async def test_isolated_leader_is_replaced_by_the_one_of_metadata(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond_as_leader(request: Any, answer: Any) -> None:
        for part in (part for topic in answer.responses for part in topic.partitions):
            if part.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                part.error_code, part.high_watermark, part.last_stable_offset = ErrorCode.NONE, 5, 5

    async with orders(1, brokers=2) as cluster, deadline() as nursery:
        cluster.move_leader("orders", 0, 0)
        fill(cluster, 5)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, metadata_max_age=5.0)
        await handler.received(5)
        edit_answers(monkeypatch, Api.FETCH, respond_as_leader)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 5)
        with trio.fail_after(7):
            await handler.received(10)
        assert handler.offsets("orders", 0) == list(range(10))
        assert [(e.before, e.after, e.cause) for e in member.seen(LeaderChanged)] == [(0, 1, "metadata reports it")]


async def test_dropped_connections_are_reopened_without_loss(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        for i in range(60):
            cluster.produce("orders", i % 2, b"%d" % i)
            if i % 7 == 3:
                cluster.disconnect()
            await trio.sleep(0.5)
        await handler.received(60)
        assert handler.offsets("orders", 0) == list(range(30))
        assert handler.offsets("orders", 1) == list(range(30))
        assert len(handler.sessions) == 1


async def test_partitions_of_a_stopped_broker_are_read_elsewhere(autojump_clock: MockClock) -> None:
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        await cluster.stop_broker(1)
        for partition in range(3):
            fill(cluster, 5, partition)
        await handler.received(15)
        await cluster.start_broker(1)
        cluster.move_leader("orders", 1, 1)
        fill(cluster, 5, 1)
        await handler.received(20)
        assert handler.offsets("orders", 1) == list(range(10))


async def test_refused_fetch_is_retried_with_counted_attempts(
    autojump_clock: MockClock,
) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Recorder()
        cluster.fail_next(Api.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)
        fill(cluster, 1)
        member = await start_member(nursery, cluster, handler)
        await handler.received(1)
        attempts = [e.attempt for e in member.seen(Retrying) if e.what == "leader of orders-0"]
        assert attempts == [1, 2, 3, 4, 5], "one retry after the other, counted"


@pytest.mark.parametrize(("size", "ahead"), [(20_000, 2), (1000, 1)])
async def test_next_fetch_is_sent_before_messages_are_returned(
    monkeypatch: pytest.MonkeyPatch, size: int, ahead: int
) -> None:
    """Over a socket, a request is sent at once. The messages of a small response are returned first."""

    def write(descriptor: int, data: bytes) -> int:
        if int.from_bytes(data[4:6], "big") == Api.FETCH:
            seen.append("fetch")
        return write_through(descriptor, data)

    async def note(session: Session, claim: Claim, message: Message) -> None:
        seen.append("message")

    write_through = os.write
    monkeypatch.setattr("sarameya.net.transport.os.write", write)
    seen: list[str] = []
    async with EmbeddedCluster(topics={"orders": 1}) as cluster, deadline(30) as nursery:
        for _ in range(10):
            cluster.produce("orders", 0, b"x" * size)
        handler = Recorder(note)
        # Each fetch returns one message, and there is always room for another one.
        await start_member(nursery, cluster, handler, fetch_max_partition_bytes=1000, channel_buffer_fetches=20)
        await handler.received(10)
    fetches = [seen[:place].count("fetch") for place, what in enumerate(seen) if what == "message"]
    assert len(fetches) == 10
    assert all(before == number + ahead for number, before in enumerate(fetches)), (
        "the fetch that returned the message, and the next"
    )


# -- backpressure ---------------------------------------------------------------------------------------


async def test_slow_partition_does_not_delay_other_partitions(autojump_clock: MockClock) -> None:
    async def slow_on_zero(session: Session, claim: Claim, message: Message) -> None:
        if claim.partition == 0:
            await trio.sleep(60)

    async with orders(4) as cluster, deadline() as nursery:
        fill(cluster, 100, 0)
        handler = Recorder(slow_on_zero)
        await start_member(nursery, cluster, handler, fetch_max_partition_bytes=500)
        await trio.sleep(5)
        began = trio.current_time()
        for i in range(50):
            for partition in (1, 2, 3):
                cluster.produce("orders", partition, b"%d" % i)
            await trio.sleep(0.1)
        await handler.until(lambda: sum(m.partition != 0 for m in handler.messages) == 150)
        assert trio.current_time() - began < 6.0


async def test_buffers_of_a_slow_claim_stay_bounded(autojump_clock: MockClock) -> None:
    release = trio.Event()

    async def wait(session: Session, claim: Claim, message: Message) -> None:
        await release.wait()

    async with orders(1) as cluster, deadline() as nursery:
        for _ in range(100):
            cluster.produce("orders", 0, b"x" * 1000)
        handler = Recorder(wait)
        await start_member(nursery, cluster, handler, fetch_max_partition_bytes=2000, channel_buffer_fetches=2)
        await trio.sleep(30)
        assert len(handler.messages) == 1
        release.set()
        await handler.received(100)
        assert handler.offsets("orders", 0) == list(range(100))


@pytest.mark.parametrize("pace", [0.001, 0.01, 0.03, 0.09])
async def test_slow_partition_does_not_delay_idle_partitions(autojump_clock: MockClock, pace: float) -> None:
    delays: list[float] = []

    async def slow_on_zero(session: Session, claim: Claim, message: Message) -> None:
        if claim.partition == 0:
            await trio.sleep(pace)
        else:
            delays.append(trio.current_time() - float(message.value or b""))

    async with orders(4) as cluster, deadline() as nursery:
        fill(cluster, int(10 / pace), 0)
        # Fast enough never to be backpressured, slow enough to keep its buffer full.
        await start_member(nursery, cluster, Recorder(slow_on_zero), fetch_max_partition_bytes=500)
        await trio.sleep(2)
        for number in range(40):
            await trio.sleep(0.137)
            cluster.produce("orders", 1 + number % 3, b"%f" % trio.current_time())
        await trio.sleep(1)
        assert len(delays) == 40
        assert max(delays) < 0.02


async def test_idle_partition_does_not_delay_a_busy_one(autojump_clock: MockClock) -> None:
    """The fetcher waits for a full buffer; it does not long-poll for idle partitions meanwhile."""

    async def quick(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(0.001)

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 2000, 0)
        handler = Recorder(quick)
        began = trio.current_time()
        await start_member(nursery, cluster, handler, fetch_max_partition_bytes=1000, fetch_max_wait=10.0)
        await handler.received(2000)
        assert trio.current_time() - began < 3.0


async def test_slow_partition_always_has_buffered_messages(
    autojump_clock: MockClock,
) -> None:
    """The handler needs 0.15 s for the records of a fetch, and has three fetches while another one waits for 0.5 s."""

    async def thorough(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(0.15)

    async with orders(2) as cluster, deadline() as nursery:
        for _ in range(100):
            cluster.produce("orders", 0, b"x" * 1000)
        handler = Recorder(thorough)
        began = trio.current_time()
        await start_member(nursery, cluster, handler, fetch_max_partition_bytes=1000, max_processing_time=0.1)
        await handler.received(100)
        assert trio.current_time() - began < 100 * 0.15 + 1.5


# -- out of range ---------------------------------------------------------------------------------------


class FromBefore(Recorder):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claim = claim
        await super().consume_claim(session, claim)

    async def start_offset(self, partition: TopicPartition, committed: object) -> int:
        return 2


async def test_position_before_the_log_fails_by_default_with_advice(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        cluster.delete_records("orders", 0, 5)
        member = await start_member(nursery, cluster, FromBefore())
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, OffsetOutOfRangeError)
        assert str(error) == (
            "orders-0: offset 2 is outside the log [5, 10) (3 offsets were deleted unread); set offset_out_of_range to "
            "'oldest', 'newest', a time or a duration, or reset the group's offset"
        )


@pytest.mark.parametrize(("policy", "first"), [("oldest", 5), ("newest", 10)])
async def test_position_before_the_log_is_reset_and_reported(
    autojump_clock: MockClock, policy: str, first: int
) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        cluster.delete_records("orders", 0, 5)
        handler = FromBefore()
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await eventually(lambda: bool(member.seen(OffsetReset)))
        if policy == "newest":
            await eventually(lambda: (handler.claim.position, handler.claim.lag) == (10, 0))
        fill(cluster, 1)
        await handler.until(lambda: 10 in handler.offsets("orders", 0))
        assert handler.offsets("orders", 0)[0] == first
        assert member.seen(OffsetReset) == [OffsetReset(PARTITION, 2, first, policy, OUT_OF_RANGE, 5, 10, 3)]


# -- corrupt batches ----------------------------------------------------------------------------


def broken(change: str) -> tuple[bytes, dict[str, int], type[Exception], str]:
    good = bytearray(build([(0, None, b"x" * 100, ())] * 5, base_offset=5))
    options: dict[str, int] = {}
    if change == "crc":
        good[-1] ^= 0xFF
        return bytes(good), options, CorruptRecordError, "CRC"
    if change == "magic":
        good[16] = 9
        return bytes(good), options, UnsupportedFormatError, "magic 9"
    if change == "length":
        struct.pack_into(">i", good, 8, -5)
        return bytes(good), options, CorruptRecordError, "-5 bytes"
    bomb = build([(0, None, b"\x00" * 2_000_000, ())], base_offset=5, codec=Codec.ZSTD)
    return bomb, {"fetch_max_decompressed_bytes": 10_000}, DecompressionLimitError, "10000 bytes"


@pytest.mark.parametrize("change", ["crc", "magic", "length", "bomb"])
async def test_corrupt_batch_fails_only_its_claim_with_its_offset(autojump_clock: MockClock, change: str) -> None:
    data, options, kind, words = broken(change)
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 5, 0)
        fill(cluster, 5, 1)
        cluster.append_raw("orders", 0, data, 9)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, **options)
        await member.ended.wait()
        error = claim_failure(member)
        assert type(error) is kind
        assert str(error).startswith("orders-0 at offset 5: ")
        assert words in str(error)
        assert handler.offsets("orders", 0) == list(range(5)), "the messages before it were delivered"
        assert committed(cluster)["orders-0"] == 5, "no message after it was skipped"


async def test_unauthorized_topic_fails_the_claim(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1)
        member = await start_member(nursery, cluster, Recorder())
        await member.ended.wait()
        assert "grant this principal READ" in str(claim_failure(member))


async def test_embedded_cluster_raises_errors_of_its_block_unchanged(autojump_clock: MockClock) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with EmbeddedCluster(in_memory=True):
            raise KeyError("mine")
