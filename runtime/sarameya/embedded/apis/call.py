"""What an API's handler is called with. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.groups.group_coordinator import GroupCoordinator
from sarameya.embedded.network.framing import ReceivedRequest


@attrs.frozen(slots=True)
class Call:
    """One request that came to one broker.

    The handler calls `reply` exactly once with a kafka-python response, now or in a later call into the
    cluster's state. It fills in what any version has; encoding drops what the request's version lacks.
    """

    cluster: ClusterState
    node_id: int
    request: ReceivedRequest
    client_host: str
    now: float
    """The timers' clock, seconds."""
    reply: Callable[[Any], None]

    @property
    def body(self) -> Any:
        """The request's message, a kafka-python request."""
        return self.request.body

    @property
    def version(self) -> int:
        return self.request.version

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of the broker that was called."""
        return self.cluster.coordinator(self.node_id)
