"""The test kit: Kafka for tests, in memory and in virtual time. Part of the public API.

Test a handler alone with a `ClaimFeed`, which has no broker at all. Test a group with a cluster in memory:

    async def test_orders_are_handled(autojump_clock):
        async with memory_cluster({"orders": 4}) as cluster:
            cluster.produce("orders", 0, b"value")
            group = ConsumerGroup(
                cluster.bootstrap_servers, "g", transport=cluster.transport, run_sync=run_inline
            )
            async with group:
                ...

There is no network I/O, and all times follow trio's clock. Under `trio.testing.MockClock` (pytest-trio's
`autojump_clock`, which must be an argument of the test itself) an hour of rebalances takes milliseconds.

`EmbeddedCluster` has a method for every failure:

| failure                                                           | method                                           |
|-------------------------------------------------------------------|--------------------------------------------------|
| an API returns an error                                           | `fail_next`                                      |
| responses or requests are delayed                                 | `delay_next`                                     |
| responses or requests are lost; the connection closes or hangs    | `drop_next`                                      |
| list the planned failures; remove all of them                     | `faults`, `clear_faults`                         |
| connections drop: all, one broker's, one client's                 | `disconnect`                                     |
| a broker hangs: it accepts requests and never responds            | `freeze_broker`, `unfreeze_broker`               |
| a broker stops, and starts again                                  | `stop_broker`, `start_broker`                    |
| a partition's leader changes                                      | `move_leader`                                    |
| a group's coordinator changes                                     | `move_coordinator`                               |
| a member's session ends                                           | `expire_member`                                  |
| a topic is created, grown, deleted                                | `create_topic`, `add_partitions`, `delete_topic` |
| a log loses its start or its end, or gets any bytes               | `delete_records`, `truncate`, `append_raw`       |
| a follower lags; it catches up                                    | `hold_replica`, `release_replica`                |
| a transaction writes records; it is committed or aborted          | `produce_transactional`, `end_transaction`       |

    cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, 3, group_id="g")
    cluster.drop_next(Api.SYNC_GROUP, half="answer")      # processed, but the client gets no response

`CoordinatorConfig` has the brokers' settings: session timeouts, retention of offsets, load time of a coordinator.
`describe_group`, `committed` and `log` show the result:

    assert cluster.describe_group("g").state is GroupState.STABLE
"""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.embedded import (
    Codec,
    CoordinatorConfig,
    EmbeddedCluster,
    GroupDescription,
    GroupState,
    MemberDescription,
)
from sarameya.embedded.faults import Delay, Drop, ErrorResponse, Fault
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from sarameya.testing.claim_feed import ClaimFeed
from sarameya.testing.virtual_time import VIRTUAL_EPOCH, run_inline, threads_in_virtual_time, virtual_wall_clock

__all__ = [
    "VIRTUAL_EPOCH",
    "Api",
    "ClaimFeed",
    "Codec",
    "CoordinatorConfig",
    "Delay",
    "Drop",
    "EmbeddedCluster",
    "ErrorCode",
    "ErrorResponse",
    "Fault",
    "GroupDescription",
    "GroupState",
    "MemberDescription",
    "memory_cluster",
    "run_inline",
    "threads_in_virtual_time",
    "virtual_wall_clock",
]


def memory_cluster(
    topics: Mapping[str, int] | None = None,
    *,
    brokers: int = 1,
    groups: CoordinatorConfig | None = None,
    seed: int = 0,
) -> EmbeddedCluster:
    """Return a cluster in memory that behaves the same in every run.

    Args:
        topics: Number of partitions of each topic.
        brokers: Number of brokers.
        groups: Settings of the group coordinators.
        seed: Seed of the generated ids.
    """
    return EmbeddedCluster(
        topics, brokers=brokers, in_memory=True, groups=groups, wall_clock=virtual_wall_clock, seed=seed
    )
