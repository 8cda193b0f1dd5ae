"""A Kafka broker in the process: the real protocol, for any client, over TCP or in memory.

    async with EmbeddedCluster(topics={"orders": 4}) as cluster:
        cluster.produce("orders", 0, b"value")
        ...                                        # clients at cluster.bootstrap_servers

`cluster` and `network` use trio; everything else is pure and is called with the current time.

| part | job |
|---|---|
| `cluster` | lifetime, clock, producing, and inspection |
| `cluster_controls`, `log_controls` | failures that tests cause on purpose |
| `cluster_state` | the state that all brokers share |
| `network/` | transports, connections, framing of requests and responses |
| `apis/` | one module for each API |
| `topics`, `replicas` | topics, their partitions, and the replicas of each |
| `log/` | one partition's log |
| `fetch_sessions` | fetch sessions of a broker (KIP-227) |
| `coordinators` | the group coordinator of each broker |
| `groups/` | one group coordinator |
| `offsets_topic/` | the records of `__consumer_offsets` |
| `purgatory` | operations that wait for an event or a deadline |
| `faults` | requests that must fail on purpose |
| `sasl/` | authentication of clients |
| `schemas` | kafka-python's schemas of all requests |
"""

from sarameya.embedded import schemas as schemas  # must precede every import of kafka-python's messages
from sarameya.embedded.cluster import EmbeddedCluster
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import GroupDescription, MemberDescription
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.network.networks import Network
from sarameya.embedded.refusal import Refused
from sarameya.embedded.sasl import SaslConfig
from sarameya.protocol.records.compression import Codec

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
