"""A handler's report of its work on a claim: its activity, and its landed offset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio

from sarameya.status import Activity


@attrs.frozen(slots=True, eq=False)
class Doing:
    """A handler's activity on one claim. `since` is on trio's clock."""

    activity: Activity
    since: float
    reason: str
    attempt: int
    attempts: int = 0


class Report:
    """The report of one claim: `Claim.report`. `ConsumerGroup.status` shows it."""

    def __init__(self) -> None:
        self.landed = -1
        """Offset up to which records are stored at their destination (exclusive); -1 if unknown."""
        self._activities: list[Doing] = []
        self.failed_offset: int | None = None
        """Offset of the message whose processing has failed, for the ClaimError; None: the claim's position."""

    @contextmanager
    def doing(self, activity: Activity, reason: str = "", *, attempt: int = 0, attempts: int = 0) -> Iterator[None]:
        """Report an activity of the partition for the length of a block, such as `Activity.LANDING`.

        If several tasks report at the same time, the last report is shown.

        Args:
            activity: Shown in the status.
            reason: Shown beside it.
            attempt: Number of the attempt, from 1; 0 if there is only one.
            attempts: Number of the last allowed attempt; 0 if unlimited.
        """
        mine = Doing(activity, trio.current_time(), reason, attempt, attempts)
        self._activities.append(mine)
        try:
            yield
        finally:
            self._activities.remove(mine)

    @property
    def doing_now(self) -> Doing | None:
        """The last activity that was reported and has not ended."""
        return self._activities[-1] if self._activities else None

    def count(self, activity: Activity) -> int:
        """Return how many tasks report this activity."""
        return sum(1 for doing in self._activities if doing.activity is activity)
