"""Stacks of asyncio's tasks, taken by another thread: suspended tasks, and the one that blocks the event loop."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any


def stack_of(task: asyncio.Task[Any] | None, thread: int) -> traceback.StackSummary:
    """Return the stack of a task, outermost frame first.

    Args:
        task: The task; None if it has not started, since something else blocks the loop: this is returned then.
        thread: Id of the thread that runs the event loop.
    """
    coroutine: Any = None if task is None else task.get_coro()
    if coroutine is not None and not coroutine.cr_running:
        return traceback.StackSummary.extract(_await_frames(coroutine))
    frames = [*traceback.walk_stack(sys._current_frames().get(thread))]
    frames.reverse()
    outermost = None if coroutine is None else coroutine.cr_frame
    begin = next((index for index, (frame, _) in enumerate(frames) if frame is outermost), 0)
    return traceback.StackSummary.extract(iter(frames[begin:]))


def _await_frames(awaitable: Any) -> Iterator[tuple[FrameType, int]]:
    while awaitable is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(awaitable, f"{kind}_frame")), None)
        if kind is None:
            return
        if (frame := getattr(awaitable, f"{kind}_frame")) is not None:
            yield frame, frame.f_lineno
        awaitable = getattr(awaitable, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
