"""The test kit: Kafka for tests, in memory and in virtual time. Part of the public API.

    async def test_orders_are_handled(autojump_clock):
        async with memory_cluster({"orders": 4}) as cluster:
            cluster.produce("orders", 0, b"value")
            group = ConsumerGroup(
                cluster.bootstrap_servers, "g", transport=cluster.transport, run_sync=run_inline
            )
            async with group:
                ...

Nothing leaves the process, and no time passes but by trio's clock: under `trio.testing.MockClock` (pytest-trio's
`autojump_clock`) an hour of rebalancing takes moments. The controls that hurt a cluster are `EmbeddedCluster`'s own.
"""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.embedded import CoordinatorConfig, EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from sarameya.testing.virtual_time import VIRTUAL_EPOCH, run_inline, virtual_wall_clock

__all__ = [
    "VIRTUAL_EPOCH",
    "Api",
    "CoordinatorConfig",
    "EmbeddedCluster",
    "ErrorCode",
    "memory_cluster",
    "run_inline",
    "virtual_wall_clock",
]


def memory_cluster(
    topics: Mapping[str, int] | None = None,
    *,
    brokers: int = 1,
    groups: CoordinatorConfig | None = None,
    seed: int = 0,
) -> EmbeddedCluster:
    """A cluster in memory whose every run is alike: ids by `seed`, record timestamps by trio's clock."""
    return EmbeddedCluster(
        topics, brokers=brokers, in_memory=True, groups=groups, wall_clock=virtual_wall_clock, seed=seed
    )
