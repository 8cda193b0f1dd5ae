"""Stacks of suspended trio tasks, as text."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from itertools import islice

import trio

_MOST_TASKS = 5
_MOST_FRAMES = 16
"""Maximum of frames of one task; the innermost ones are kept."""


def stack_of(task: trio.lowlevel.Task) -> str:
    """Format where `task` is suspended, and where the tasks of the nurseries that it has opened are.

    Returns:
        For each task its name and the frames of its await chain, the innermost one last.
    """
    return "".join(_stack_of_one(one) for one in islice(_with_children(task), _MOST_TASKS))


def _with_children(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    """Yield the task, then the tasks below it; siblings in the order of their names, since nurseries keep sets."""
    yield task
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    for child in sorted(children, key=lambda child: child.name):
        yield from _with_children(child)


def _stack_of_one(task: trio.lowlevel.Task) -> str:
    frames = traceback.StackSummary.extract(task.iter_await_frames())
    left_out = max(len(frames) - _MOST_FRAMES, 0)
    more = f"  ({left_out} outer frames are left out)\n" if left_out else ""
    return f"{task.name}\n{more}" + "".join(traceback.StackSummary.from_list(frames[left_out:]).format())
