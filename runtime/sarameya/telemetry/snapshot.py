"""Snapshots of members, in this process or in others."""

from __future__ import annotations

from typing import Protocol

import attrs

from sarameya.meters import Meters
from sarameya.status import GroupStatus

__all__ = ["MemberSnapshot", "Metered"]


class Metered(Protocol):
    """The part of a ConsumerGroup that a snapshot uses."""

    @property
    def meters(self) -> Meters:
        """Counts since the group was created."""
        ...

    def status(self) -> GroupStatus:
        """Return the present state, partition by partition."""
        ...


@attrs.frozen(slots=True)
class MemberSnapshot:
    """Snapshot of one member. `worker` numbers the members of one service, from 1."""

    worker: int
    status: GroupStatus
    meters: Meters

    @classmethod
    def of(cls, group: Metered, worker: int = 1) -> MemberSnapshot:
        """Take a snapshot of a ConsumerGroup. Call it on the group's event loop."""
        return cls(worker, group.status(), group.meters)
