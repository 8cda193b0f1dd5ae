"""The world around a client, as the client knows it, and its timing in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from sarameya.protocol.assignors.base import TopicLayout
from tests.model.network import Connection
from tests.model.scheduler import Scheduler


@attrs.frozen(slots=True, kw_only=True)
class Timing:
    """Seconds, the same for all clients of a world. What `Config` has is named as there."""

    session_timeout: float = 6.0
    heartbeat_interval: float = 2.0
    rebalance_timeout: float = 20.0
    rebalance_margin: float = 1.0
    request_timeout: float = 10.0
    close_timeout: float = 6.0
    autocommit_interval: float = 2.5
    join_margin: float = 5.0
    """Beyond the rebalance timeout, before a held join counts as unanswered."""
    watch_interval: float = 5.0
    """Between two looks at the topics."""
    least: float = 1.0
    """What a session has to end in order, whatever its deadline."""


class Surroundings(Protocol):
    """The world, as a client sees it."""

    scheduler: Scheduler
    timing: Timing

    def connect(
        self, name: str, number: int, node_id: int, do: Callable[[Callable[[], None]], None]
    ) -> Connection | None:
        """A client's `number`th connection, or None where the node is down. `do` runs something in the client."""

    def layouts(self) -> Mapping[str, TopicLayout]:
        """The topics, as their metadata tell."""
