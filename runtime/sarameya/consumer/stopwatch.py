"""Total time of a repeated activity: a handler at work, a partition held back."""

from __future__ import annotations


class Stopwatch:
    """Seconds on the caller's clock."""

    __slots__ = ("_before", "_since")

    def __init__(self) -> None:
        self._before = 0.0
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """Start the activity."""
        self._since = now

    def end(self, now: float) -> None:
        """Stop the activity, if it is running."""
        if self._since is not None:
            self._before += now - self._since
            self._since = None

    def lasting(self, now: float) -> float:
        """Return the seconds of the present activity, 0 if there is none."""
        return 0.0 if self._since is None else now - self._since

    def seconds_until(self, now: float) -> float:
        """Return the seconds in total."""
        return self._before + self.lasting(now)
