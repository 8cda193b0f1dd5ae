"""The addresses of new leaders, returned with an error to clients that send a request to the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sarameya.embedded.cluster_state import ClusterState


def endpoints(cluster: ClusterState, leaders: Collection[int], kind: Any) -> list[Any]:
    """Return the addresses of the `leaders` that are up, as structures of `kind`, a response's NodeEndpoint."""
    return [
        kind(node_id=node.id, host=node.host, port=node.port, rack=cluster.settings.racks.get(node.id))
        for node in cluster.nodes
        if node.id in leaders
    ]
