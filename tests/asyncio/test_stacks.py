"""Stacks of asyncio tasks, for the events about overdue and stuck handlers."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import Generator

from sarameya.asyncio.stacks import stack_of
from tests.asyncio.kit import run


async def inner(reached: asyncio.Event) -> None:
    reached.set()
    await asyncio.sleep(1e6)


@types.coroutine
def between(reached: asyncio.Event) -> Generator[object, None, None]:
    yield from inner(reached)  # type: ignore[misc]


async def outer(reached: asyncio.Event) -> None:
    await between(reached)


def test_stack_of_a_suspended_task_has_its_await_chain() -> None:
    async def main() -> None:
        reached = asyncio.Event()
        task = asyncio.create_task(outer(reached))
        await reached.wait()
        names = [frame.name for frame in stack_of(task, threading.get_ident())]
        task.cancel()
        await asyncio.wait([task])
        assert names[:3] == ["outer", "between", "inner"]
        assert names[-1] == "sleep"

    run(main)


def test_stack_of_the_running_task_begins_with_its_coroutine() -> None:
    async def main() -> None:
        loop_thread = threading.get_ident()

        async def blocks() -> list[str]:
            found: list[str] = []

            def collect(task: asyncio.Task[object] | None) -> None:
                found.extend(frame.name for frame in stack_of(task, loop_thread))

            watcher = threading.Thread(target=collect, args=(asyncio.current_task(),))
            watcher.start()
            watcher.join()
            return found

        names = await asyncio.create_task(blocks())
        assert names[0] == "blocks"
        everything = [frame.name for frame in stack_of(None, loop_thread)]
        assert "test_stack_of_the_running_task_begins_with_its_coroutine" in everything, (
            "the stack of the loop's thread, for a task that has not started"
        )

    run(main)
