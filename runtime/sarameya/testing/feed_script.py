"""What a test wants to happen at a place in its log, once the handler has taken what stands before it. Pure."""

from __future__ import annotations

from collections import deque
from typing import Literal

import attrs

from sarameya.errors import SarameyaError

Step = Literal["end", "lose"] | SarameyaError
"""The partition is given up, the membership is lost, or reading fails."""


@attrs.define(slots=True)
class FeedScript:
    """The steps that are still to come, in order."""

    _steps: deque[tuple[int, Step]] = attrs.field(factory=deque)

    def add(self, offset: int, step: Step) -> None:
        """`step` is due when what stands before `offset` has been taken."""
        self._steps.append((offset, step))

    @property
    def next(self) -> Step | None:
        return self._steps[0][1] if self._steps else None

    def limit(self, end: int) -> int:
        """How far may be read of a log that ends at `end`."""
        return min(self._steps[0][0], end) if self._steps else end

    def done(self) -> None:
        """The next step has been taken."""
        self._steps.popleft()
