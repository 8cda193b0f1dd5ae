"""A Kafka broker in the process: the real protocol, for any client, over TCP or in memory.

    async with EmbeddedCluster(topics={"orders": 4}) as cluster:
        cluster.produce("orders", 0, b"value")
        ...                                        # clients at cluster.bootstrap_servers

Map: `cluster` (lifetime), `controls` and `log_controls` (what hurts it), `server` (connections) and `networks` (TCP,
memory) are trio; all else is pure: `framing` (bytes <-> requests), `apis` (a file an API), `cluster_state` (what
brokers know), `fetch_sessions`, `topics`, `replicas`, `partition_log` with what it remembers (`epoch_cache`,
`transaction_index`, `producer_state`, `offset_index`), `coordinators` (which broker has which group),
`group_coordinator` with `groups`, `offsets_journal` with `offsets_records` (`__consumer_offsets`), `purgatory` (who
waits), `faults`, `sasl` (who clients are).
"""

from sarameya.embedded.cluster import EmbeddedCluster
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import GroupDescription, MemberDescription
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.network.networks import Network
from sarameya.embedded.refusal import Refused
from sarameya.embedded.sasl import SaslConfig
from sarameya.protocol.compression import Codec

__all__ = [
    "Codec",
    "CoordinatorConfig",
    "EmbeddedCluster",
    "GroupDescription",
    "GroupState",
    "MemberDescription",
    "Network",
    "PartitionLog",
    "Refused",
    "SaslConfig",
]
