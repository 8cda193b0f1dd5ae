"""The interface of the world that a client uses, and its timing in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from sarameya.protocol.assignors.base import TopicLayout
from tests.model.network import Connection
from tests.model.scheduler import Scheduler


@attrs.frozen(slots=True, kw_only=True)
class Timing:
    """Times in seconds, the same for all clients of a world. Options of `Config` have the same names as there."""

    session_timeout: float = 6.0
    heartbeat_interval: float = 2.0
    rebalance_timeout: float = 20.0
    rebalance_margin: float = 1.0
    request_timeout: float = 10.0
    close_timeout: float = 6.0
    autocommit_interval: float = 2.5
    join_margin: float = 5.0
    """The time after the rebalance timeout until a held join counts as unanswered."""
    watch_interval: float = 5.0
    """The time between two checks of the topics."""
    least: float = 1.0
    """The least time of a session to end in order, whatever its deadline."""


class Surroundings(Protocol):
    """The part of the world that a client uses."""

    scheduler: Scheduler
    timing: Timing

    def connect(
        self, name: str, number: int, node_id: int, do: Callable[[Callable[[], None]], None]
    ) -> Connection | None:
        """Return a client's `number`th connection, or None if the node is down. `do` runs an action in the client."""

    def layouts(self) -> Mapping[str, TopicLayout]:
        """Return the topics with their partitions, as their metadata has them."""
