"""Periodic checks for expired offsets, as long as there are groups.

The interval is a `DelayedOperation` like every other wait, so that a coordinator without groups has no deadline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.purgatory import DelayedOperation, Purgatory

_CHECK = "check"


class DelayedCheck(DelayedOperation):
    """The wait for the next check. It completes when the last group is removed."""

    def __init__(self, groups: Mapping[str, ClassicGroup], deadline: float, check: Callable[[float], None]) -> None:
        super().__init__(deadline)
        self.groups = groups
        self.check = check

    def can_complete(self) -> bool:
        return not self.groups

    def on_complete(self, now: float) -> None:
        pass

    def on_expire(self, now: float) -> None:
        self.check(now)


class RetentionChecks:
    """Calls `check(now)` every `interval` seconds while there are `groups`; never if the interval is infinite."""

    def __init__(self, groups: Mapping[str, ClassicGroup], interval: float, check: Callable[[float], None]) -> None:
        self.purgatory = Purgatory()
        self._groups = groups
        self._interval = interval
        self._check = check

    def groups_changed(self, now: float) -> None:
        """Start or stop the checks after a group was added or removed."""
        self.purgatory.check_and_complete(_CHECK, now)
        if self._groups and not self.purgatory and self._interval < math.inf:
            self._await(now)

    def _run(self, now: float) -> None:
        self._check(now)
        self.groups_changed(now)

    def _await(self, now: float) -> None:
        operation = DelayedCheck(self._groups, now + self._interval, self._run)
        self.purgatory.try_complete_else_watch(operation, (_CHECK,), now)
