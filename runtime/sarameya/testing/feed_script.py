"""The steps of a test, each at an offset of its log. A step runs when all messages before it have been read. Pure."""

from __future__ import annotations

from collections import deque
from typing import Literal

import attrs

from sarameya.errors import SarameyaError

Step = Literal["end", "lose"] | SarameyaError
"""The partition is revoked ("end"), the membership is lost ("lose"), or reading raises the error."""


@attrs.define(slots=True)
class FeedScript:
    """The remaining steps, in order of their offsets."""

    _steps: deque[tuple[int, Step]] = attrs.field(factory=deque)

    def add(self, offset: int, step: Step) -> None:
        """Add a step that is due when all messages before `offset` have been read."""
        self._steps.append((offset, step))

    @property
    def next(self) -> Step | None:
        """The next step, or None."""
        return self._steps[0][1] if self._steps else None

    def limit(self, end: int) -> int:
        """Return the offset up to which a log that ends at `end` may be read now."""
        return min(self._steps[0][0], end) if self._steps else end

    def done(self) -> None:
        """Remove the next step."""
        self._steps.popleft()
