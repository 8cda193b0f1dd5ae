"""Check for an orderly end: exit code 0 means that all is processed and committed, and the group left."""

from __future__ import annotations

from sarameya.errors import SarameyaError
from sarameya.observe import ClaimCancelled, CommitFailed, Event, LeaveFailed
from sarameya.service.process.signals import Stop


class UnfinishedError(SarameyaError):
    """The service has ended, but not in order. Messages without a commit are consumed again next time."""

    retriable = True


class ShutdownCheck:
    """Collects failures of members after the end was requested."""

    def __init__(self, stop: Stop, close_timeout: float) -> None:
        self._stop = stop
        self._close_timeout = close_timeout
        self._problems: dict[str, None] = {}

    def observe(self, event: Event) -> None:
        """Record an event of the group that means unfinished work."""
        if not self._stop.is_requested:
            return
        match event:
            case ClaimCancelled(partition=partition):
                self._problems[f"{partition} was not done"] = None
            case CommitFailed(cause=cause):
                self._problems[f"the last commit failed ({cause})"] = None
            case LeaveFailed(cause=cause):
                self._problems[f"the group was not left ({cause})"] = None

    def check(self) -> None:
        """Raise UnfinishedError if the end was not orderly."""
        if self._problems:
            raise UnfinishedError(
                f"stopped, but {'; '.join(self._problems)} within close_timeout ({self._close_timeout:g} s); "
                "messages without a commit are consumed again next time"
            )
