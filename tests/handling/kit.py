"""Helpers of the message handlers' tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sarameya import Config, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Observer
from sarameya.testing import run_inline, virtual_wall_clock


def member_of(
    cluster: EmbeddedCluster, group: str = "billing", observers: Iterable[Observer] = (), **options: Any
) -> ConsumerGroup:
    """Return a member of a group on this cluster, in memory."""
    config = Config(**{"offset_initial": "oldest", **options})
    return ConsumerGroup(
        cluster.bootstrap_servers,
        group,
        config,
        observers=observers,
        transport=cluster.transport,
        run_sync=run_inline,
        wall_clock=virtual_wall_clock,
    )
