"""`MessageHandler` on asyncio: order, concurrency, retries, dead letters, threads, time limits."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from sarameya import ClaimError, DeadLetterTopic, FailedMessage, HandlerTimeoutError, Message, Retry, RetryTopics
from sarameya.asyncio import Consumer, MessageHandler
from sarameya.observe import DeadLettered
from tests.asyncio.kit import QUICK, Cluster, cluster_of, eventually, group_of, run

Condition = Callable[[], bool | Awaitable[bool]]


class RecordingMessageHandler(MessageHandler):
    """Yields once for each message. `failures` has the number of failures to raise by offset."""

    def __init__(self) -> None:
        self.handled: dict[int, list[int]] = defaultdict(list)
        self.failures: dict[int, int] = {}
        self.at_once = self.most_at_once = 0
        self.tasks: set[str] = set()

    @property
    def count(self) -> int:
        return sum(map(len, self.handled.values()))

    async def handle(self, message: Message) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task.get_name())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if self.failures.get(message.offset, 0) > 0:
                self.failures[message.offset] -= 1
                raise OSError(f"offset {message.offset}")
        finally:
            self.at_once -= 1
        self.handled[message.partition].append(message.offset)


async def handle_until(cluster: Cluster, handler: MessageHandler, is_done: Condition, **options: Any) -> None:
    async with group_of(cluster, "g", **options) as member:
        consuming = asyncio.create_task(member.consume(["orders"], handler))
        done = asyncio.create_task(eventually(is_done))
        await asyncio.wait([consuming, done], return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            done.result()
        else:
            done.cancel()
            await consuming
        await member.close()
        await consuming


def test_partitions_are_handled_in_order_and_side_by_side() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 3}) as cluster:
            for partition in range(3):
                await cluster.produce("orders", partition, *[b"x"] * 1000)
            handler = RecordingMessageHandler()
            handler.concurrency = 2
            await handle_until(cluster, handler, lambda: handler.count == 3000)
            assert handler.handled == {partition: list(range(1000)) for partition in range(3)}
            assert handler.most_at_once == 2
            assert handler.tasks == {"RecordingMessageHandler.handle"}
            assert [await cluster.committed("g", partition=number) for number in range(3)] == [1000] * 3

    run(main)


def test_keys_are_handled_in_order() -> None:
    class ByKey(RecordingMessageHandler):
        ordering = "key"

        def __init__(self) -> None:
            super().__init__()
            self.keys: dict[bytes | None, list[int]] = defaultdict(list)

        async def handle(self, message: Message) -> None:
            await asyncio.sleep((message.offset % 3) / 1000)
            await super().handle(message)
            self.keys[message.key].append(message.offset)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            for number in range(300):
                await cluster.produce("orders", 0, b"x", key=b"%d" % (number % 11))
            handler = ByKey()
            handler.concurrency = 8
            await handle_until(cluster, handler, lambda: handler.count == 300)
            assert all(offsets == sorted(offsets) for offsets in handler.keys.values())
            assert handler.handled[0] != sorted(handler.handled[0])
            assert 2 <= handler.most_at_once <= 8
            assert await cluster.committed("g") == 300

    run(main)


def test_failed_message_is_retried_in_its_place() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, *[b"x"] * 100)
            handler = RecordingMessageHandler()
            handler.retry = Retry(attempts=3, backoff=0.001)
            handler.failures = {10: 2, 11: 1, 99: 1}
            await handle_until(cluster, handler, lambda: handler.count == 100)
            assert handler.handled[0] == list(range(100))
            assert await cluster.committed("g") == 100

    run(main)


def test_failure_ends_the_session_and_names_its_message() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, *[b"x"] * 100)
            handler = RecordingMessageHandler()
            handler.failures = {10: 1}
            with pytest.raises(ExceptionGroup) as raised:
                await handle_until(cluster, handler, lambda: False)
            (error,) = raised.value.exceptions
            assert isinstance(error, ClaimError)
            assert (error.offset, str(error.cause)) == (10, "offset 10")
            assert "in handle" in "".join(traceback.format_exception(error.cause))
            assert await cluster.committed("g") == 10
            await handle_until(cluster, handler, lambda: handler.count == 100)
            assert handler.handled[0] == list(range(100))

    run(main)


def test_failed_messages_go_through_retry_topics_to_dead_letters() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1, "letters": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = RecordingMessageHandler()
            handler.retry_topics = RetryTopics([0.05])
            handler.dead_letters = DeadLetterTopic("letters")
            handler.failures = {0: 1, 1: 2}

            async def is_done() -> bool:
                kept = await cluster.do(lambda embedded: embedded.log("letters", 0).end_offset)
                return handler.count == 2 and kept == 1

            await handle_until(cluster, handler, is_done)
            assert sorted(handler.handled[0]) == [0, 2]
            async with Consumer(cluster.bootstrap_servers) as consumer:
                async with consumer.consume_partition("letters", 0, "oldest") as claim:
                    letter = await anext(aiter(claim))
            assert letter.value == b"b"
            assert dict(letter.headers)["__sarameya.errors.attempts"] == b"2"

    run(main)


def test_dead_letter_function_runs_on_the_event_loop() -> None:
    kept: list[tuple[int, int]] = []

    async def keep(failed: FailedMessage) -> None:
        await asyncio.sleep(0)
        kept.append((failed.message.offset, threading.get_ident()))

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            handler = RecordingMessageHandler()
            handler.dead_letters = keep
            handler.failures = {0: 1}
            places: list[str] = []
            await handle_until(
                cluster,
                handler,
                lambda: handler.count == 1,
                observers=[lambda event: places.append(event.place) if isinstance(event, DeadLettered) else None],
            )
            assert kept == [(0, threading.get_ident())]
            assert places == [keep.__qualname__]
            assert await cluster.committed("g") == 2

    run(main)


def test_plain_function_runs_in_threads() -> None:
    class Blocks(MessageHandler):
        ordering = "none"
        concurrency = 3

        def __init__(self) -> None:
            self.all_there = threading.Barrier(3)
            self.threads: set[int] = set()
            self.finished = 0

        def handle(self, message: Message) -> None:
            self.all_there.wait(30)
            self.threads.add(threading.get_ident())
            self.finished += 1

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = Blocks()
            await handle_until(cluster, handler, lambda: handler.finished == 3)
            assert len(handler.threads) == 3
            assert threading.get_ident() not in handler.threads

    run(main)


def test_plain_function_may_return_a_coroutine() -> None:
    """A decorator often hides that a function is a coroutine function."""

    class Wrapped(RecordingMessageHandler):
        def handle(self, message: Message):  # type: ignore[no-untyped-def,override]
            return super().handle(message)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            handler = Wrapped()
            await handle_until(cluster, handler, lambda: handler.count == 2)

    run(main)


class Wrapped(MessageHandler):
    """Handler with a plain function that returns a waiting coroutine."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.cancelled: list[int] = []

    def handle(self, message: Message):  # type: ignore[no-untyped-def]
        return self._wait(message.offset)

    async def _wait(self, offset: int) -> None:
        self.started.append(offset)
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            self.cancelled.append(offset)
            raise


def test_stopped_claim_cancels_coroutine_of_plain_function() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = Wrapped()
            async with group_of(cluster, config=attrs.evolve(QUICK, claim_grace=0.1)) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: handler.started == [0])
                await asyncio.wait_for(group.close(), 30)
                await consuming
            assert handler.cancelled == [0]

    run(main)


def test_time_limit_cancels_coroutine_of_plain_function() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = Wrapped()
            handler.max_handler_time = 0.5
            with pytest.raises(ExceptionGroup) as raised:
                await asyncio.wait_for(handle_until(cluster, handler, lambda: False), 30)
            assert isinstance(raised.value.exceptions[0].__cause__, HandlerTimeoutError)
            assert handler.cancelled == [0]

    run(main)


def test_call_that_exceeds_its_time_limit_fails() -> None:
    class Slow(RecordingMessageHandler):
        max_handler_time = 0.1

        async def handle(self, message: Message) -> None:
            if message.offset == 1:
                await asyncio.sleep(1e6)
            await super().handle(message)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            with pytest.raises(ExceptionGroup) as raised:
                await handle_until(cluster, Slow(), lambda: False)
            (error,) = raised.value.exceptions
            assert isinstance(error, ClaimError)
            assert isinstance(error.cause, HandlerTimeoutError)
            assert await cluster.committed("g") == 1

    run(main)


def test_timeout_raised_by_the_handler_stays_as_it_is() -> None:
    class OwnLimit(RecordingMessageHandler):
        max_handler_time = 30

        async def handle(self, message: Message) -> None:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(1e6)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            with pytest.raises(ExceptionGroup) as raised:
                await handle_until(cluster, OwnLimit(), lambda: False)
            (error,) = raised.value.exceptions
            assert isinstance(error, ClaimError)
            assert type(error.cause) is TimeoutError

    run(main)


def test_messages_of_a_revoked_partition_are_not_started() -> None:
    """The first message waits while the member closes."""

    class Gated(RecordingMessageHandler):
        def __init__(self) -> None:
            super().__init__()
            self.gate = asyncio.Event()
            self.started = 0

        async def handle(self, message: Message) -> None:
            self.started += 1
            await self.gate.wait()
            await super().handle(message)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            first = Gated()
            async with group_of(cluster, "g") as group:
                consuming = asyncio.create_task(group.consume(["orders"], first))
                await eventually(lambda: first.started == 1)
                group.close_nowait()
                await eventually(lambda: _is_stopping(group))
                first.gate.set()
                await consuming
            assert first.handled == {0: [0]}
            assert await cluster.committed("g") == 1

    async def _is_stopping(group: object) -> bool:
        status = await group.status()  # type: ignore[attr-defined]
        return [partition.activity for partition in status.partitions] == ["giving up"]

    run(main)
