"""Cancelled tasks, blocks that end, and event loops that end."""

from __future__ import annotations

import asyncio
import threading

import attrs
import pytest

from sarameya import ClaimError
from sarameya.asyncio import Claim, ConsumerGroup, ConsumerGroupHandler, MessageHandler, Session
from sarameya.model import Message
from tests.asyncio.kit import QUICK, Cluster, cluster_of, eventually, group_of, run


class WaitingHandler(ConsumerGroupHandler):
    """Marks a message, waits until it is cancelled, and logs its calls."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message)
            self.seen.append("message")
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                self.seen.append("cancelled")
                raise

    async def cleanup(self, session: Session) -> None:
        self.seen.append("cleanup")


def test_cancelled_consume_ends_the_session_in_order() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = WaitingHandler()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: bool(handler.seen))
                consuming.cancel("enough")
                with pytest.raises(asyncio.CancelledError, match="enough"):
                    await consuming
                assert consuming.cancelled()
                assert handler.seen == ["message", "cancelled", "cleanup"]
                assert await cluster.committed("billing") == 1
                assert await cluster.members("billing") == 0

    run(main)


def test_timeout_around_consume_expires() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = WaitingHandler()
            async with group_of(cluster) as group:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(1):
                        await group.consume(["orders"], handler)
            assert await cluster.members("billing") == 0

    run(main)


def test_failure_during_a_cancellation_is_raised() -> None:
    class FailingHandler(WaitingHandler):
        async def cleanup(self, session: Session) -> None:
            raise ValueError("cleanup failed")

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = FailingHandler()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: bool(handler.seen))
                consuming.cancel()
                with pytest.raises(ExceptionGroup) as raised:
                    await consuming
                assert raised.group_contains(ValueError, match="cleanup failed")

    run(main)


def test_end_of_the_block_ends_consume() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            handler = WaitingHandler()
            async with group_of(cluster, config=attrs.evolve(QUICK, claim_grace=0.1)) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: bool(handler.seen))
            await consuming
            assert handler.seen == ["message", "cancelled", "cleanup"]
            assert await cluster.committed("billing") == 1

    run(main)


def test_exception_of_the_block_is_raised_unchanged() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            with pytest.raises(KeyError):
                async with group_of(cluster):
                    raise KeyError("mine")

    run(main)


def test_cancelled_task_of_a_handler_cancels_consume() -> None:
    """`asyncio.run` cancels all tasks in the same way when it ends."""

    class TaskRecordingHandler(WaitingHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self.task = asyncio.current_task()
            await super().consume_claim(session, claim)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = TaskRecordingHandler()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: bool(handler.seen))
                assert handler.task is not None
                handler.task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await consuming
                assert handler.seen == ["message", "cancelled", "cleanup"]
                assert await cluster.members("billing") == 0

    run(main)


def test_handler_that_raises_cancelled_error_itself_has_failed() -> None:
    class Confused(WaitingHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            async with group_of(cluster) as group:
                with pytest.raises(ExceptionGroup) as raised:
                    await group.consume(["orders"], Confused())
            (error,) = raised.value.exceptions
            assert isinstance(error, ClaimError)
            assert str(error.cause) == (
                "Confused.consume_claim of orders-0 has raised CancelledError: "
                "a task or a future that it awaits was cancelled"
            )

    run(main)


def test_running_handle_calls_are_cancelled_with_consume() -> None:
    class PartlyWaitingHandler(MessageHandler):
        ordering = "none"

        def __init__(self) -> None:
            self.started: list[int] = []
            self.cancelled: list[int] = []

        async def handle(self, message: Message) -> None:
            self.started.append(message.offset)
            if message.offset == 1:
                return
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                self.cancelled.append(message.offset)
                raise

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            handler = PartlyWaitingHandler()
            async with group_of(cluster) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: len(handler.started) == 3)
                consuming.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await consuming
            assert sorted(handler.cancelled) == [0, 2]
            assert await cluster.committed("billing") == 0, "the commit's metadata has offset 1 as finished"

    run(main)


def test_end_of_asyncio_run_ends_the_group_in_order() -> None:
    """`asyncio.run` cancels all tasks, those of the handler too, while no task awaits the group's task."""
    handler = WaitingHandler()

    async def broken(cluster_ready: asyncio.Future[str]) -> None:
        async with ConsumerGroup(await cluster_ready, "billing", QUICK) as group:
            await group.consume(["orders"], handler)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            address = ",".join(cluster.bootstrap_servers)

            async def program() -> None:
                loop = asyncio.get_running_loop()
                loop.slow_callback_duration = 1e9  # depends on the machine
                ready = loop.create_future()
                ready.set_result(address)
                task = asyncio.create_task(broken(ready))
                await eventually(lambda: bool(handler.seen))
                assert not task.done()

            await asyncio.to_thread(asyncio.run, program(), debug=True)
            assert await cluster.members("billing") == 0
            assert await cluster.committed("billing") == 1

    run(main)
    assert handler.seen == ["message", "cancelled", "cleanup"]


def test_member_leaves_once_it_finds_the_loop_closed() -> None:
    """The program closes its loop inside the block of a group, so that it can no longer close the group."""

    class ReadingHandler(WaitingHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                self.seen.append("message")
                session.mark_message(message)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler, group = ReadingHandler(), group_of(cluster)

            def program() -> None:
                loop = asyncio.new_event_loop()
                loop.run_until_complete(group.__aenter__())
                consuming = loop.create_task(group.consume(["orders"], handler))
                loop.run_until_complete(eventually(lambda: bool(handler.seen)))
                assert not consuming.done()
                for task in asyncio.all_tasks(loop):
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                loop.close()

            await asyncio.to_thread(program)
            assert await cluster.members("billing") == 1
            await cluster.produce("orders", 0, b"b")
            await eventually(lambda: _left(cluster))
            await eventually(lambda: "sarameya group billing" not in {each.name for each in threading.enumerate()})

    run(main)


async def _left(cluster: Cluster) -> bool:
    return await cluster.members("billing") == 0


def test_opening_may_be_cancelled() -> None:
    async def main() -> None:
        for steps in range(6):
            group = ConsumerGroup(["localhost:1"], "billing")
            opening = asyncio.create_task(group.__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            try:
                await opening
            except asyncio.CancelledError:
                continue
            await group.__aexit__(None, None, None)

    run(main)


def test_closing_may_be_cancelled() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = WaitingHandler()

            async def program() -> None:
                async with group_of(cluster, config=attrs.evolve(QUICK, claim_grace=0.1)) as group:
                    consuming = asyncio.create_task(group.consume(["orders"], handler))
                    await eventually(lambda: bool(handler.seen))
                    asyncio.get_running_loop().call_soon(program_task.cancel)
                consuming.result()

            program_task = asyncio.create_task(program())
            with pytest.raises(asyncio.CancelledError):
                await program_task
            assert handler.seen == ["message", "cancelled", "cleanup"]
            assert await cluster.members("billing") == 0
            assert not [thread for thread in threading.enumerate() if thread.name == "sarameya group billing"]

    run(main)


def test_failing_start_is_raised_and_leaves_no_thread() -> None:
    async def main() -> None:
        config = attrs.evolve(QUICK, security_protocol="SSL", tls_ca_file="/no/such/file")
        with pytest.raises(Exception, match="/no/such/file"):
            async with ConsumerGroup(["localhost:1"], "billing", config):
                pass

    run(main)


class Own(BaseException):
    """A base exception, like the one of `pytest.fail`."""


@pytest.mark.parametrize("error", [Own("mine"), SystemExit(7), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["claim", "setup", "message", "thread"])
def test_base_exception_of_a_handler_ends_the_program(kind: str, error: BaseException) -> None:
    class Claims(ConsumerGroupHandler):
        async def setup(self, session: Session) -> None:
            if kind == "setup":
                raise error

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                raise error

    class Messages(MessageHandler):
        async def handle(self, message: Message) -> None:
            raise error

    class Threads(MessageHandler):
        def handle(self, message: Message) -> None:
            raise error

    handler = {"message": Messages, "thread": Threads}.get(kind, Claims)()

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            async with group_of(cluster) as group:
                await group.consume(["orders"], handler)

    with pytest.raises(type(error)) as raised:
        asyncio.run(main())
    assert raised.value.args == error.args


def test_cancelled_error_that_a_thread_raises_is_a_failure() -> None:
    class Confused(MessageHandler):
        def handle(self, message: Message) -> None:
            raise asyncio.CancelledError("mine")

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            async with group_of(cluster) as group:
                with pytest.raises(RuntimeError, match="has raised CancelledError"):
                    await group.consume(["orders"], Confused())

    run(main)


def test_failure_of_the_member_is_the_cause_of_other_errors() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("the real failure")

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = WaitingHandler()
            group = await group_of(cluster).__aenter__()
            consuming = asyncio.create_task(group.consume(["orders"], handler))
            await eventually(lambda: bool(handler.seen))
            runtime = group._group._runtime
            assert runtime is not None
            await group._portal.call_sync(runtime.shielded.start_soon, fail)
            text = r"group billing has failed: ZeroDivisionError\('the real failure'\)"
            with pytest.raises(RuntimeError, match=text) as failed:
                await consuming
            with pytest.raises(RuntimeError, match=text):
                await group.close()
            with pytest.raises(ExceptionGroup) as raised:
                await group.__aexit__(None, None, None)
            assert failed.value.__cause__ is raised.value
            assert raised.group_contains(ZeroDivisionError)

    run(main)


def test_block_cannot_be_left_by_another_loop_or_a_handler() -> None:
    class LeavingHandler(WaitingHandler):
        def __init__(self, group: ConsumerGroup) -> None:
            super().__init__()
            self.group = group

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                await self.group.__aexit__(None, None, None)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            async with group_of(cluster) as group:
                with pytest.raises(RuntimeError, match="another event loop"):
                    await asyncio.to_thread(asyncio.run, group.__aexit__(None, None, None))
                async with asyncio.timeout(30):
                    with pytest.raises(ExceptionGroup) as raised:
                        await group.consume(["orders"], LeavingHandler(group))
            assert raised.group_contains(ClaimError)
            assert "call close_nowait()" in str(raised.value.exceptions[0])

    run(main)


def test_object_cannot_be_entered_twice() -> None:
    async def main() -> None:
        group = ConsumerGroup(["localhost:1"], "billing")
        async with group:
            with pytest.raises(RuntimeError, match="create an object for each block"):
                await group.__aenter__()
        with pytest.raises(RuntimeError, match="create an object for each block"):
            await group.__aenter__()

    run(main)
