"""The test kit: Kafka for tests, in memory and in virtual time. Part of the public API.

A handler alone is tested with a `ClaimFeed`, which has no broker at all; a group with one in memory:

    async def test_orders_are_handled(autojump_clock):
        async with memory_cluster({"orders": 4}) as cluster:
            cluster.produce("orders", 0, b"value")
            group = ConsumerGroup(
                cluster.bootstrap_servers, "g", transport=cluster.transport, run_sync=run_inline
            )
            async with group:
                ...

Nothing leaves the process, and no time passes but by trio's clock: under `trio.testing.MockClock` (pytest-trio's
`autojump_clock`, which must be an argument of the test itself) an hour of rebalancing takes moments.

A cluster can be hurt while it is used; all of these are methods of `EmbeddedCluster`:

| what                                                              | by                                               |
|-------------------------------------------------------------------|--------------------------------------------------|
| the next answers of an API are an error                           | `fail_next`                                      |
| they come late; the requests reach the broker late                | `delay_next`                                     |
| they are lost, work done; the requests are lost; silence for ever | `drop_next`                                      |
| which of these are still to come; none any more                   | `faults`, `clear_faults`                         |
| connections drop: all, one broker's, one client's                 | `disconnect`                                     |
| a broker hangs: it takes what comes and answers nothing           | `freeze_broker`, `unfreeze_broker`               |
| a broker ends, and comes back                                     | `stop_broker`, `start_broker`                    |
| another broker leads a partition                                  | `move_leader`                                    |
| another broker coordinates a group, once it has loaded it         | `move_coordinator`                               |
| a member's session ends                                           | `expire_member`                                  |
| a topic comes, grows, goes                                        | `create_topic`, `add_partitions`, `delete_topic` |
| a log loses its head or its tail, or gets any bytes               | `delete_records`, `truncate`, `append_raw`       |
| a follower lags, for who reads from it; it catches up             | `hold_replica`, `release_replica`                |
| records of a transaction; it is committed or aborted              | `produce_transactional`, `end_transaction`       |

    cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, 3, group_id="g")
    cluster.drop_next(Api.SYNC_GROUP, half="answer")      # done, and nobody hears of it

What brokers are set to (session timeouts, how long offsets are kept, how long a coordinator loads) is
`CoordinatorConfig`; what came of it is seen by `describe_group`, `committed` and `log`:

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
from sarameya.testing.virtual_time import VIRTUAL_EPOCH, run_inline, virtual_wall_clock

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
