"""The members of a service, as whoever serves its pages has heard of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from sarameya.service.web.recent import Happening
from sarameya.telemetry.snapshot import MemberSnapshot


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
    happenings: tuple[Happening, ...] = ()
    """Of late, the newest last."""


class Members(Protocol):
    """Where a page has its members from."""

    def heard(self) -> Sequence[Heard]: ...
