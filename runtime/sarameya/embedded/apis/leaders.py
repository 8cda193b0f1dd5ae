"""Who leads instead, told beside the errors of clients that look in the wrong place (KIP-951)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sarameya.embedded.cluster_state import ClusterState


def endpoints(cluster: ClusterState, leaders: Collection[int], kind: Any) -> list[Any]:
    """Where these brokers are, of those that are up, as structures of `kind`, a message's NodeEndpoint."""
    return [
        kind(node_id=node.id, host=node.host, port=node.port, rack=cluster.settings.racks.get(node.id))
        for node in cluster.nodes
        if node.id in leaders
    ]
