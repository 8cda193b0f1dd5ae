"""What a session leaves behind. Data only."""

from __future__ import annotations

import math

import attrs

from sarameya.group.member import NewAssignment


@attrs.define(slots=True)
class Outcome:
    """How a session ended. `deadline` is by when its member must have moved on."""

    reason: str = ""
    deadline: float = math.inf
    failures: list[Exception] = attrs.field(factory=list)
    lost: bool = False
    closing: bool = False
    rebalanced: bool = False
    """Ended by the group, in order, and by nothing else."""
    fatal: Exception | None = None
    next: NewAssignment | None = None
    """An assignment that came while the session ended: the next one begins with it."""

    @property
    def all_failures(self) -> list[Exception]:
        """What failed the membership first, if anything did."""
        return [self.fatal, *self.failures] if self.fatal is not None else self.failures

    def text(self, group: str) -> str:
        """What the group of failures says."""
        return f"group {group!r}: {self.reason}"
