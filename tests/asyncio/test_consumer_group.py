"""Consumer groups in asyncio programs: messages, marks, commits, pauses, rebalances and failures."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import attrs
import pytest
import trio

import sarameya
from sarameya import ClaimError, CommittedOffset, ConfigError, MessageBatch, TopicPartition
from sarameya.asyncio import Claim, Consumer, ConsumerGroup, ConsumerGroupHandler, MessageHandler, Producer, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Event
from tests.asyncio.kit import Cluster, cluster_of, eventually, group_of, run

P0 = TopicPartition("orders", 0)
user = contextvars.ContextVar("user", default="nobody")


class RecordingClaimHandler(ConsumerGroupHandler):
    """Reads, records and marks every message."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.values: list[bytes | None] = []
        self.threads: set[int] = set()
        self.users: set[str] = set()

    async def setup(self, session: Session) -> None:
        self.calls.append(f"setup {dict(session.claims)}")

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("assigned")

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("revoked")

    async def cleanup(self, session: Session) -> None:
        self.calls.append("cleanup")

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            self.threads.add(threading.get_ident())
            self.users.add(user.get())
            self.values.append(message.value)
            session.mark_message(message)
        self.calls.append(f"end at {claim.position}")


async def consume_all(cluster: Cluster, handler: RecordingClaimHandler, count: int) -> None:
    """Consume until the handler has read `count` messages."""
    async with group_of(cluster) as group:
        consuming = asyncio.create_task(group.consume(["orders"], handler))
        await eventually(lambda: len(handler.values) >= count)
        await group.close()
        await consuming


def test_handler_reads_marks_and_commits() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = RecordingClaimHandler()
            await consume_all(cluster, handler, 3)
            assert handler.values == [b"a", b"b", b"c"]
            assert handler.threads == {threading.get_ident()}
            assert handler.calls == ["setup {'orders': (0,)}", "assigned", "end at 3", "revoked", "cleanup"]
            assert await cluster.committed("billing") == 3
            assert await cluster.members("billing") == 0

    run(main)


def test_handler_sees_the_context_variables_of_the_caller() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            async with group_of(cluster) as group:
                user.set("alice")
                handler = RecordingClaimHandler()
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                user.set("bob")
                await eventually(lambda: bool(handler.values))
                await group.close()
                await consuming
        assert handler.users == {"alice"}

    run(main)


def test_many_messages_are_read_in_order_and_other_tasks_run() -> None:
    count = 20_000

    async def main() -> None:
        async with cluster_of({"orders": 2}) as cluster:
            for partition in range(2):
                await cluster.produce("orders", partition, *(b"%d" % number for number in range(count)))
            passes = 0

            class CountingHandler(RecordingClaimHandler):
                async def consume_claim(self, session: Session, claim: Claim) -> None:
                    expected = 0
                    async for message in claim:
                        assert message.value == b"%d" % expected
                        expected += 1
                        self.values.append(message.value)
                        session.mark_message(message)

            async def other() -> None:
                nonlocal passes
                while True:
                    passes += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            await consume_all(cluster, CountingHandler(), 2 * count)
            task.cancel()
            assert passes > 10
            assert [await cluster.committed("billing", partition=number) for number in range(2)] == [count, count]

    run(main)


def test_batches_are_read_and_marked() -> None:
    class BatchReader(ConsumerGroupHandler):
        def __init__(self) -> None:
            self.batches: list[MessageBatch] = []

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                assert message.value == b"a"
                break
            async for batch in claim.batches():
                self.batches.append(batch)
                session.mark_batch(batch)
                await session.commit()

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = BatchReader()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: len(handler.batches) == 1)
                await cluster.produce("orders", 0, b"d")
                await eventually(lambda: len(handler.batches) == 2)
                await group.close()
                await consuming
            assert [[message.value for message in batch] for batch in handler.batches] == [[b"b", b"c"], [b"d"]]
            assert [(batch.from_offset, batch.next_offset) for batch in handler.batches] == [(1, 3), (3, 4)]
            assert await cluster.committed("billing") == 4

    run(main)


def test_read_that_times_out_loses_no_message() -> None:
    class PatientHandler(RecordingClaimHandler):
        timeouts = 0

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            messages = aiter(claim)
            while not claim.has_ended:
                try:
                    async with asyncio.timeout(0.001):
                        message = await anext(messages)
                except TimeoutError:
                    self.timeouts += 1
                except StopAsyncIteration:
                    break
                else:
                    self.values.append(message.value)
                    session.mark_message(message)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            handler = PatientHandler()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                expected = [b"%d" % number for number in range(10)]
                for value in expected:
                    before = handler.timeouts
                    await eventually(lambda before=before: handler.timeouts > before + 3)  # type: ignore[misc]
                    await cluster.produce("orders", 0, value)
                await eventually(lambda: len(handler.values) == 10)
                await group.close()
                await consuming
            assert handler.values == expected

    run(main)


def test_exception_of_a_handler_is_raised_with_its_traceback() -> None:
    class FailingHandler(RecordingClaimHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                session.mark_message(message)
                if message.value == b"b":
                    self.explode()

        def explode(self) -> None:
            raise ValueError("boom")

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = FailingHandler()
            async with group_of(cluster) as group:
                with pytest.raises(ExceptionGroup) as raised:
                    await group.consume(["orders"], handler)
            (error,) = raised.value.exceptions
            assert isinstance(error, ClaimError)
            assert (error.partition, error.offset) == (P0, 2)
            assert "in explode" in "".join(traceback.format_exception(error.cause))
            assert handler.calls[-1] == "cleanup"
            assert await cluster.committed("billing") == 2
            assert await cluster.members("billing") == 0

    run(main)


@pytest.mark.parametrize("name", ["setup", "partitions_assigned", "partitions_revoked", "cleanup", "start_offset"])
def test_exception_of_any_other_method_is_raised(name: str) -> None:
    async def fail(*args: object) -> None:
        raise ValueError(name)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = type("FailingHandler", (RecordingClaimHandler,), {name: fail})()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                if name in ("partitions_revoked", "cleanup"):
                    await eventually(lambda: bool(handler.values))
                    group.close_nowait()
                with pytest.raises(ExceptionGroup) as raised:
                    await consuming
            assert raised.group_contains(ValueError, match=name)

    run(main)


def test_start_offset_of_the_handler_is_used() -> None:
    class StartingAtTwo(RecordingClaimHandler):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            assert (partition, committed) == (P0, None)
            return 2

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = StartingAtTwo()
            await consume_all(cluster, handler, 1)
            assert handler.values == [b"c"]

    run(main)


def test_paused_claim_returns_nothing_until_resumed() -> None:
    class PausingHandler(RecordingClaimHandler):
        def __init__(self, group: ConsumerGroup) -> None:
            super().__init__()
            self.group = group

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                self.values.append(message.value)
                session.mark_message(message)
                if message.value == b"b":
                    await self.group.pause([P0])

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c", b"d")
            async with group_of(cluster) as group:
                handler = PausingHandler(group)
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: P0 in group.paused)
                await asyncio.sleep(0.1)
                assert handler.values == [b"a", b"b"]
                assert (await group.status()).partitions[0].position == 2
                await group.resume([P0])
                await eventually(lambda: len(handler.values) == 4)
                await group.close()
                await consuming
            assert handler.values == [b"a", b"b", b"c", b"d"]

    run(main)


def test_moved_partitions_have_no_gap_and_no_repetition() -> None:
    count = 3000

    async def main() -> None:
        async with cluster_of({"orders": 2}) as cluster:
            for partition in range(2):
                await cluster.produce("orders", partition, *(b"%d" % number for number in range(count)))
            first, second = RecordingClaimHandler(), RecordingClaimHandler()
            async with group_of(cluster) as group, group_of(cluster) as other:
                consuming = asyncio.create_task(group.consume(["orders"], first))
                await eventually(lambda: len(first.values) > count)
                other_consuming = asyncio.create_task(other.consume(["orders"], second))
                await eventually(lambda: len(first.values) + len(second.values) == 2 * count)
                await eventually(lambda: "revoked" in first.calls and "assigned" in second.calls)
                await cluster.produce("orders", 0, b"last")
                await cluster.produce("orders", 1, b"last")
                await eventually(lambda: first.values[-1] == b"last" and second.values[-1:] == [b"last"])
                await group.close()
                await other.close()
                await asyncio.gather(consuming, other_consuming)
            assert len(first.values) + len(second.values) == 2 * count + 2
            assert [await cluster.committed("billing", partition=n) for n in range(2)] == [count + 1, count + 1]

    run(main)


def test_subscription_can_be_changed() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1, "returns": 1}) as cluster:
            await cluster.produce("returns", 0, b"r")
            handler = RecordingClaimHandler()
            async with group_of(cluster) as group:
                with pytest.raises(RuntimeError, match="not running"):
                    await group.subscribe(["returns"])
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: "assigned" in handler.calls)
                await group.subscribe(["returns"])
                await eventually(lambda: handler.values == [b"r"])
                await group.close()
                await consuming

    run(main)


def test_events_are_observed_in_the_thread_of_the_member() -> None:
    threads: set[str] = set()

    def observe(event: Event) -> None:
        threads.add(threading.current_thread().name)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = RecordingClaimHandler()
            async with group_of(cluster, observers=[observe]) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: bool(handler.values))
                await group.close()
                await consuming

    run(main)
    assert threads == {"sarameya group billing"}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio.eager_task_factory is new in 3.12")
def test_eager_tasks_are_supported() -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - for 3.11
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = RecordingClaimHandler()
            await consume_all(cluster, handler, 3)
            assert await cluster.committed("billing") == 3

    run(main)


def test_events_and_meters_are_those_of_trio() -> None:
    @attrs.frozen
    class Shipped(Event):
        offset: int

    class ReportingHandler(RecordingClaimHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            assert not claim.is_paused
            async for message in claim:
                session.notify(Shipped(message.offset))
                self.ids = session.cluster_id, session.topic_id("orders")
                with pytest.raises(ValueError, match="not claimed"):
                    session.topic_id("others")
                self.values.append(message.value)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            events: list[Event] = []
            async with group_of(cluster, observers=[events.append]) as group:
                handler = ReportingHandler()
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: bool(handler.values))
                await group.close()
                await consuming
                assert group.meters.topic("orders").records == 1
                assert group.buffered_bytes == 0
            assert Shipped(0) in events
            assert all(handler.ids)

    run(main)


def test_misuse_is_refused() -> None:
    class OnTrio(sarameya.ConsumerGroupHandler):
        async def consume_claim(self, session: sarameya.Session, claim: sarameya.Claim) -> None: ...

    class Sync(ConsumerGroupHandler):
        def consume_claim(self, session: Session, claim: Claim) -> None:  # type: ignore[override]
            pass

    class Unordered(MessageHandler):
        ordering = "random"  # type: ignore[assignment]

        async def handle(self, message: sarameya.Message) -> None: ...

    async def main() -> None:
        group = ConsumerGroup(["localhost:1"], "billing")
        with pytest.raises(RuntimeError, match="works only inside its block"):
            await group.consume(["orders"], RecordingClaimHandler())
        with pytest.raises(RuntimeError, match="works only inside its block"):
            group.close_nowait()
        async with group:
            with pytest.raises(TypeError, match="needs a handler"):
                await group.consume(["orders"])  # type: ignore[call-overload]
            with pytest.raises(ConfigError, match=r"those of sarameya need a sarameya\.ConsumerGroup"):
                await group.consume(["orders"], OnTrio())  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match=r"Sync\.consume_claim .* must be a coroutine function"):
                await group.consume(["orders"], Sync())
            with pytest.raises(ConfigError, match="ordering"):
                await group.consume(["orders"], Unordered())
        with pytest.raises(RuntimeError, match="works only inside its block"):
            await group.consume(["orders"], RecordingClaimHandler())
        with pytest.raises(ConfigError):
            ConsumerGroup(["localhost"], "billing")

    run(main)


def test_class_on_the_other_event_loop_names_the_right_import() -> None:
    async def opens(block: AbstractAsyncContextManager[object]) -> None:
        async with block:
            pass

    servers = ["localhost:1"]
    for block in (sarameya.ConsumerGroup(servers, "g"), sarameya.Consumer(servers), sarameya.Producer(servers)):
        with pytest.raises(RuntimeError, match=r"runs on trio: a program on asyncio imports it from sarameya\.asyncio"):
            asyncio.run(opens(block))
    with pytest.raises(RuntimeError, match="runs on trio: run `sarameya broker` beside"):
        asyncio.run(opens(EmbeddedCluster()))
    for block in (ConsumerGroup(servers, "g"), Consumer(servers), Producer(servers)):
        with pytest.raises(RuntimeError, match="runs on asyncio: a program on trio imports it from sarameya, not"):
            trio.run(opens, block)


def test_group_of_another_event_loop_is_refused() -> None:
    async def main() -> None:
        async with ConsumerGroup(["localhost:1"], "billing") as group:

            def in_another_loop() -> str:
                with pytest.raises(RuntimeError, match="belongs to another event loop") as raised:
                    asyncio.run(group.status())
                return str(raised.value)

            assert await asyncio.to_thread(in_another_loop)

    run(main)
