"""Which API versions a play speaks: those of a client of some age, one version an API.

Every step of a play speaks its API in the profile's version, as a real client does. The profiles are where the group
protocol changes its meaning or its shape; between two of them only fields were renumbered.
"""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.protocol.versions import Api

_OF_EVERY_API = (
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

NEWEST = "4.1"


def _profile(*versions: int) -> Mapping[Api, int]:
    return dict(zip(_OF_EVERY_API, versions, strict=True))


PROFILES: Mapping[str, Mapping[Api, int]] = {
    # The lowest that Kafka 4.1 and the embedded broker share. No rebalance timeout, no throttle times, offsets by name
    # only.
    "lowest": _profile(0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0),
    # The last before a member must know its id (KIP-394).
    "2.1": _profile(3, 2, 2, 2, 6, 5, 2, 2, 2, 1, 0),
    # Static members (KIP-345), leaving one by one.
    "2.3": _profile(5, 3, 3, 2, 7, 5, 2, 3, 2, 1, 0),
    # Leaving in batches, and compact encoding (KIP-482).
    "2.4": _profile(6, 4, 4, 4, 8, 6, 3, 5, 3, 2, 0),
    # Protocol type and name in joins and syncs (KIP-559).
    "2.5": _profile(7, 5, 4, 4, 8, 7, 3, 5, 3, 2, 0),
    # Many groups at once (KIP-699, KIP-709), reasons (KIP-800), skipped assignments (KIP-814), states in listings
    # (KIP-518).
    "3.9": _profile(9, 5, 4, 5, 9, 8, 4, 5, 4, 2, 0),
    # The highest that Kafka 4.1 and the embedded broker share. Groups that do not exist are errors; groups have types
    # (KIP-848, KIP-1043).
    NEWEST: _profile(9, 5, 4, 5, 9, 8, 4, 6, 5, 2, 0),
}

ALL = tuple(PROFILES)[:-1]
"""From the eldest to the youngest that every broker here speaks."""


TYPICAL = ("lowest", "2.1", "3.9")
"""Without ids that must be known, the first without a rebalance timeout; and with all that came later."""


def since(name: str) -> tuple[str, ...]:
    """The profiles from this one on."""
    return ALL[ALL.index(name) :]
