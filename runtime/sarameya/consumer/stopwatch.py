"""How long something went on in all, over the times that it did: a handler at work, a partition held back."""

from __future__ import annotations


class Stopwatch:
    """Seconds on whatever clock its callers read."""

    __slots__ = ("_before", "_since")

    def __init__(self) -> None:
        self._before = 0.0
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """It goes on from now."""
        self._since = now

    def end(self, now: float) -> None:
        """It goes on no longer, if it did."""
        if self._since is not None:
            self._before += now - self._since
            self._since = None

    def lasting(self, now: float) -> float:
        """For how long it is going on this time, 0 where it is not."""
        return 0.0 if self._since is None else now - self._since

    def seconds_until(self, now: float) -> float:
        """For how long in all."""
        return self._before + self.lasting(now)
