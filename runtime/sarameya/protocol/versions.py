"""Version negotiation: the newest version of an API that both sides know. No other module decides versions.

`CLIENT_VERSIONS` lists the versions that this client implements. The embedded broker has its own table
(`embedded/apis`), so that client and broker really have to negotiate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from sarameya.errors import UnsupportedVersionError


class Api(IntEnum):
    """API keys, as request headers carry them (int16)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47
    CONSUMER_GROUP_DESCRIBE = 69


class VersionRange(NamedTuple):
    """Versions `low` to `high` of one API, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


CLIENT_VERSIONS: Mapping[Api, VersionRange] = {
    # From 3 on, brokers accept record batches v2; from 13 on, requests name topics by id.
    Api.PRODUCE: VersionRange(3, 12),
    Api.FETCH: VersionRange(4, 17),
    Api.LIST_OFFSETS: VersionRange(1, 7),
    Api.METADATA: VersionRange(1, 12),
    Api.OFFSET_COMMIT: VersionRange(2, 9),
    # From 8 on, one request covers several groups.
    Api.OFFSET_FETCH: VersionRange(1, 7),
    # From 4 on, one request covers several coordinators.
    Api.FIND_COORDINATOR: VersionRange(0, 3),
    Api.JOIN_GROUP: VersionRange(2, 9),
    Api.HEARTBEAT: VersionRange(0, 4),
    Api.LEAVE_GROUP: VersionRange(0, 5),
    Api.SYNC_GROUP: VersionRange(0, 5),
    Api.DESCRIBE_GROUPS: VersionRange(0, 6),
    Api.LIST_GROUPS: VersionRange(0, 5),
    # After a handshake of version 0, the authentication is not sent in Kafka requests.
    Api.SASL_HANDSHAKE: VersionRange(1, 1),
    Api.API_VERSIONS: VersionRange(0, 3),
    Api.CREATE_TOPICS: VersionRange(2, 7),
    # From 6 on, requests may name topics by id.
    Api.DELETE_TOPICS: VersionRange(1, 5),
    Api.INIT_PRODUCER_ID: VersionRange(0, 4),
    Api.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
    Api.DESCRIBE_CONFIGS: VersionRange(1, 4),
    Api.SASL_AUTHENTICATE: VersionRange(0, 2),
    Api.CREATE_PARTITIONS: VersionRange(0, 3),
    Api.DELETE_GROUPS: VersionRange(0, 2),
    Api.OFFSET_DELETE: VersionRange(0, 0),
    Api.CONSUMER_GROUP_DESCRIBE: VersionRange(0, 0),
}


def negotiate(
    api: Api, broker: Mapping[int, VersionRange], client: Mapping[Api, VersionRange] = CLIENT_VERSIONS
) -> int:
    """Return the newest version of `api` that both sides know.

    Args:
        api: The API.
        broker: The broker's versions, by API key.
        client: The client's versions.

    Raises:
        UnsupportedVersionError: There is no such version. The error names both ranges.
    """
    client_range = client[api]
    broker_range = broker.get(api)
    if broker_range is None:
        raise UnsupportedVersionError(f"the broker does not serve {api.name}")
    newest = min(client_range.high, broker_range.high)
    if newest < max(client_range.low, broker_range.low):
        raise UnsupportedVersionError(
            f"{api.name}: the broker serves versions {broker_range}, this client speaks {client_range}"
        )
    return newest


def broker_versions(rows: Iterable[tuple[int, int, int]]) -> dict[int, VersionRange]:
    """Convert the (api key, low, high) rows of an ApiVersions response to a table, including unknown APIs."""
    return {key: VersionRange(low, high) for key, low, high in rows}
