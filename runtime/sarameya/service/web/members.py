"""The members of a service, as whoever serves its pages has heard of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import attrs

from sarameya.service.web.recent import Happening
from sarameya.telemetry.snapshot import MemberSnapshot


@attrs.frozen(slots=True)
class Restart:
    """That a member which has failed is started again: in how many seconds, after how many failures in a row."""

    seconds: float
    failures: int

    def __str__(self) -> str:
        when = f"restarting in {math.ceil(self.seconds)} s" if self.seconds else "being started again"
        return f"{when} (failures in a row: {self.failures})"


@attrs.frozen(slots=True)
class Due:
    """The same, as who starts it keeps it: when that is."""

    at: float
    failures: int

    def seen(self, now: float) -> Restart:
        return Restart(max(self.at - now, 0.0), self.failures)


@attrs.frozen(slots=True, kw_only=True)
class Heard:
    """What a member has last told of itself, and how long ago."""

    worker: int
    snapshot: MemberSnapshot | None = None
    """None where it has told nothing yet."""
    age: float = 0.0
    """Seconds."""
    pid: int = 0
    failure: str = ""
    """Why it does not run, where it has failed and is to be started again."""
    restart: Restart | None = None
    """Where it is known."""
    happenings: tuple[Happening, ...] = ()
    """Of late, the newest last."""


class Members(Protocol):
    """Where a page has its members from."""

    def heard(self) -> Sequence[Heard]: ...
