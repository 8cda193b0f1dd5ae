"""The argument of every API handler. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.groups.group_coordinator import GroupCoordinator
from sarameya.embedded.network.framing import ReceivedRequest


@attrs.frozen(slots=True)
class Call:
    """A request to a broker.

    The handler calls `reply` exactly once with a kafka-python response, during the call or later. It fills in the
    fields of all versions; encoding drops the fields that the request's version lacks.
    """

    cluster: ClusterState
    node_id: int
    request: ReceivedRequest
    client_host: str
    now: float
    """Time in seconds on the clock of the timers."""
    reply: Callable[[Any], None]

    @property
    def body(self) -> Any:
        """The kafka-python request."""
        return self.request.body

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.request.version

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator of the broker."""
        return self.cluster.coordinator(self.node_id)
