"""Profiles: the API versions of a play, one version for each API, as a client of some age sends them.

All steps of a play use the versions of its profile. A profile about groups exists for each version in which the group
protocol changes its meaning or its fields. Profiles about logs cover each version of the APIs that read and write logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from sarameya.protocol.versions import Api

_OF_GROUPS = (
    Api.JOIN_GROUP,
    Api.SYNC_GROUP,
    Api.HEARTBEAT,
    Api.LEAVE_GROUP,
    Api.OFFSET_COMMIT,
    Api.OFFSET_FETCH,
    Api.FIND_COORDINATOR,
    Api.DESCRIBE_GROUPS,
    Api.LIST_GROUPS,
    Api.DELETE_GROUPS,
    Api.OFFSET_DELETE,
)
_OF_LOGS = (
    Api.PRODUCE,
    Api.FETCH,
    Api.LIST_OFFSETS,
    Api.OFFSET_FOR_LEADER_EPOCH,
    Api.INIT_PRODUCER_ID,
)

NEWEST = "4.1"

_GROUPS: Mapping[str, tuple[int, ...]] = {
    # The lowest versions that Kafka 4.1 and the embedded broker share. No rebalance timeout, no throttle times, offsets
    # by name only.
    "lowest": (0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0),
    # The last before a member must know its id (KIP-394).
    "2.1": (3, 2, 2, 2, 6, 5, 2, 2, 2, 1, 0),
    # Static members (KIP-345), leaving one by one.
    "2.3": (5, 3, 3, 2, 7, 5, 2, 3, 2, 1, 0),
    # Leaving in batches, and compact encoding (KIP-482).
    "2.4": (6, 4, 4, 4, 8, 6, 3, 5, 3, 2, 0),
    # Protocol type and name in joins and syncs (KIP-559).
    "2.5": (7, 5, 4, 4, 8, 7, 3, 5, 3, 2, 0),
    # Many groups at once (KIP-699, KIP-709), reasons (KIP-800), skipped assignments (KIP-814), states in listings
    # (KIP-518).
    "3.9": (9, 5, 4, 5, 9, 8, 4, 5, 4, 2, 0),
    # The highest versions that Kafka 4.1 and the embedded broker share. A missing group is an error; groups have types
    # (KIP-848, KIP-1043).
    NEWEST: (9, 5, 4, 5, 9, 8, 4, 6, 5, 2, 0),
}

_LOGS: Mapping[str, tuple[int, ...]] = {
    # Produce before record batches (KIP-98): Kafka 4.1 lists these versions, but closes the connection.
    "0.8": (0, 4, 1, 2, 0),
    "0.9": (1, 4, 1, 2, 0),
    "0.10": (2, 4, 1, 2, 0),
    # The lowest versions that Kafka 4.1 and the embedded broker share.
    "lowest": (3, 4, 1, 2, 0),
    # Log start offsets; isolation levels.
    "0.11": (4, 5, 2, 2, 0),
    "1.0": (5, 6, 2, 2, 0),
    # Fetch sessions (KIP-227).
    "1.1": (5, 7, 2, 2, 0),
    "2.0": (6, 8, 3, 2, 1),
    # Leader epochs (KIP-320), Zstandard for producers (KIP-110), which fetches from the next version on.
    "2.1": (7, 9, 4, 2, 1),
    "2.2": (7, 10, 5, 2, 1),
    # Racks (KIP-392); replicas in OffsetForLeaderEpoch.
    "2.3": (7, 11, 5, 3, 1),
    # Errors of single records (KIP-467).
    "2.4": (8, 11, 5, 3, 2),
    # Compact encoding (KIP-482); logs that diverge (KIP-595).
    "2.7": (8, 12, 5, 3, 4),
    "2.8": (9, 12, 6, 4, 4),
    # Topic ids (KIP-516); offsets of the highest timestamp (KIP-734).
    "3.1": (9, 13, 7, 4, 4),
    # Tiered storage (KIP-405).
    "3.4": (9, 14, 8, 4, 4),
    "3.5": (9, 15, 8, 4, 4),
    # The current leader in an error response (KIP-951).
    "3.7": (10, 16, 8, 4, 4),
    "3.9": (11, 17, 9, 4, 4),
    "4.0": (12, 17, 10, 4, 4),
    # The highest versions that Kafka 4.1 and the embedded broker share. Topic ids in Produce.
    NEWEST: (13, 18, 10, 4, 4),
}

PROFILES: Mapping[str, Mapping[Api, int]] = {
    name: dict(
        chain(
            zip(_OF_GROUPS, _GROUPS.get(name, ()), strict=False),
            zip(_OF_LOGS, _LOGS.get(name, ()), strict=False),
        )
    )
    for name in dict.fromkeys([*_LOGS, *_GROUPS])
}

ALL = tuple(_GROUPS)[:-1]
"""The group profiles that every tested broker supports, from the oldest to the newest."""


TYPICAL = ("lowest", "2.1", "3.9")
"""The oldest (no rebalance timeout), the last without required member ids, and the newest of `ALL`."""


def since(name: str) -> tuple[str, ...]:
    """Return the group profiles from this one on."""
    return ALL[ALL.index(name) :]


def every(api: Api, first: int = 0, last: int = 99) -> tuple[str, ...]:
    """Return a log profile for each version of an API that Kafka 4.1 speaks, from `first` to `last`."""
    names = list(_LOGS)[list(_LOGS).index("lowest") :]
    by_version = {PROFILES[name][api]: name for name in reversed(names)}
    return tuple(by_version[version] for version in sorted(by_version) if first <= version <= last)


NOT_BEFORE_4 = ("4.0", NEWEST)
"""Profiles that Kafka 3.9 does not support."""
