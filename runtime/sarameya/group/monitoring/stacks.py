"""Stacks of suspended trio tasks, as text, for reports of overdue and stuck handlers."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from weakref import WeakKeyDictionary

import trio

_MOST_TASKS = 5
_MOST_FRAMES = 16
"""Maximum number of frames of one task; the innermost frames are kept."""

_continued: WeakKeyDictionary[trio.lowlevel.Task, Callable[[], traceback.StackSummary]] = WeakKeyDictionary()
"""Stacks of tasks whose work goes on in a thread, or in another event loop."""


@contextmanager
def continued(stack: Callable[[], traceback.StackSummary]) -> Iterator[None]:
    """Use what `stack` returns as the stack of the current task, outermost frame first, for the length of a block."""
    task = trio.lowlevel.current_task()
    _continued[task] = stack
    try:
        yield
    finally:
        del _continued[task]


def stack_of(task: trio.lowlevel.Task) -> str:
    """Format the stack of a suspended task, and the stacks of the tasks in its nurseries.

    Returns:
        For each task its name and the frames of its await chain, the innermost frame last.
    """
    return "".join(_format(each) for each in islice(_with_children(task), _MOST_TASKS))


def _with_children(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    """Yield the task, then the tasks of its nurseries. Siblings are sorted by name: a nursery's set has no order."""
    yield task
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    for child in sorted(children, key=lambda child: child.name):
        yield from _with_children(child)


def _format(task: trio.lowlevel.Task) -> str:
    stack = _continued.get(task)
    frames = traceback.StackSummary.extract(task.iter_await_frames()) if stack is None else stack()
    left_out = max(len(frames) - _MOST_FRAMES, 0)
    more = f"  ({left_out} outer frames are left out)\n" if left_out else ""
    return f"{task.name}\n{more}" + "".join(traceback.StackSummary.from_list(frames[left_out:]).format())
