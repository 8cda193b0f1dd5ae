"""What a handler says of its work on a claim, where more is to be seen of it than that it is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio

from sarameya.status import Activity


@attrs.frozen(slots=True)
class Doing:
    """What it is at, since when (on trio's clock), why, and for which time."""

    activity: Activity
    since: float
    reason: str
    attempt: int
    attempts: int = 0


class Report:
    """Of one claim: `Claim.report`. `ConsumerGroup.status` shows what stands here."""

    def __init__(self) -> None:
        self.landed = -1
        """Up to where what was read is where it belongs: the next offset to be landed; -1 where that is not known."""
        self.doing_now: Doing | None = None

    @contextmanager
    def doing(self, activity: Activity, reason: str = "", *, attempt: int = 0) -> Iterator[None]:
        """For the length of a block: the partition's activity is this one, `Activity.LANDING` or another.

        Of several tasks at work on a claim, the last one that said so is seen.
        """
        before, self.doing_now = self.doing_now, Doing(activity, trio.current_time(), reason, attempt)
        mine = self.doing_now
        try:
            yield
        finally:
            if self.doing_now is mine:
                self.doing_now = before
