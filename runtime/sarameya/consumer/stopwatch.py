"""Total duration of a repeated activity: a handler that works, or a partition that is backpressured."""

from __future__ import annotations


class Stopwatch:
    """Total duration of one activity, in seconds. Each method gets the time from the caller."""

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
        """Return the seconds since the activity started, 0 if it is not running."""
        return 0.0 if self._since is None else now - self._since

    def seconds_until(self, now: float) -> float:
        """Return the seconds in total, the running activity included."""
        return self._before + self.lasting(now)
