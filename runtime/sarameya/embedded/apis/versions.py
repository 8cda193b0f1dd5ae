"""The APIs and versions that this broker serves: for checking requests, and for ApiVersions.

The client has its own table (`protocol.versions`), so that the two must negotiate like programs of different versions.
"""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.protocol.versions import Api, VersionRange

SERVED_VERSIONS: Mapping[Api, VersionRange] = {
    # Only v3+ can carry the record format of the log.
    Api.PRODUCE: VersionRange(3, 13),
    # Below v4, records would have to be converted to an older format.
    Api.FETCH: VersionRange(4, 18),
    Api.LIST_OFFSETS: VersionRange(1, 10),
    Api.METADATA: VersionRange(0, 12),
    Api.OFFSET_COMMIT: VersionRange(2, 9),
    Api.OFFSET_FETCH: VersionRange(1, 8),
    Api.FIND_COORDINATOR: VersionRange(0, 4),
    Api.JOIN_GROUP: VersionRange(0, 9),
    Api.HEARTBEAT: VersionRange(0, 4),
    Api.LEAVE_GROUP: VersionRange(0, 5),
    Api.SYNC_GROUP: VersionRange(0, 5),
    Api.DESCRIBE_GROUPS: VersionRange(0, 6),
    Api.LIST_GROUPS: VersionRange(0, 5),
    Api.SASL_HANDSHAKE: VersionRange(0, 1),
    Api.API_VERSIONS: VersionRange(0, 4),
    Api.CREATE_TOPICS: VersionRange(2, 7),
    Api.DELETE_TOPICS: VersionRange(1, 6),
    Api.INIT_PRODUCER_ID: VersionRange(0, 4),
    Api.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
    Api.DESCRIBE_CONFIGS: VersionRange(1, 4),
    Api.SASL_AUTHENTICATE: VersionRange(0, 2),
    Api.CREATE_PARTITIONS: VersionRange(0, 3),
    Api.DELETE_GROUPS: VersionRange(0, 2),
    Api.OFFSET_DELETE: VersionRange(0, 0),
}

NAMED_VERSIONS: Mapping[Api, VersionRange] = {
    **SERVED_VERSIONS,
    # As in Kafka 4, because librdkafka does not compress for a broker that does not name them (KAFKA-18659).
    Api.PRODUCE: VersionRange(0, 13),
}
"""Versions in the ApiVersions response: the served versions, with one exception."""
