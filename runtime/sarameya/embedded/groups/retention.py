"""When to look for what has expired: every check interval, for as long as there are groups.

A `DelayedOperation` like everything else that waits, so that a coordinator without groups waits for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.purgatory import DelayedOperation, Purgatory

_CHECK = "check"


class DelayedCheck(DelayedOperation):
    """The next look. It is let go when the last group goes."""

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
    """Calls `check(now)` every `interval` seconds while `groups` has any; never if that is infinite."""

    def __init__(self, groups: Mapping[str, ClassicGroup], interval: float, check: Callable[[float], None]) -> None:
        self.purgatory = Purgatory()
        self._groups = groups
        self._interval = interval
        self._check = check

    def groups_changed(self, now: float) -> None:
        """A group has come or gone."""
        self.purgatory.check_and_complete(_CHECK, now)
        if self._groups and not self.purgatory and self._interval < math.inf:
            self._await(now)

    def _run(self, now: float) -> None:
        self._check(now)
        self.groups_changed(now)

    def _await(self, now: float) -> None:
        operation = DelayedCheck(self._groups, now + self._interval, self._run)
        self.purgatory.try_complete_else_watch(operation, (_CHECK,), now)
