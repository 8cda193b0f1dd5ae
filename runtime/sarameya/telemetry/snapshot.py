"""What there is to be told of a member at a moment, whichever process it runs in."""

from __future__ import annotations

from typing import Protocol

import attrs

from sarameya.meters import Meters
from sarameya.status import GroupStatus

__all__ = ["MemberSnapshot", "Metered"]


class Metered(Protocol):
    """What is needed of a ConsumerGroup."""

    @property
    def meters(self) -> Meters:
        """What it has counted since it was made."""
        ...

    def status(self) -> GroupStatus:
        """What it is doing, partition by partition."""
        ...


@attrs.frozen(slots=True)
class MemberSnapshot:
    """`worker` numbers the members of one service, from 1."""

    worker: int
    status: GroupStatus
    meters: Meters

    @classmethod
    def of(cls, group: Metered, worker: int = 1) -> MemberSnapshot:
        """Of a ConsumerGroup; on its event loop."""
        return cls(worker, group.status(), group.meters)
