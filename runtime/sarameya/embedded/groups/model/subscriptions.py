"""Which topics a group reads, as far as the coordinator can tell: subscriptions are the clients' own bytes.

Only those of the protocol type "consumer" are read, and of them only what every version begins with: the topics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in one consumer's subscription; None for other bytes."""
    try:
        _version, count = struct.unpack_from(">hi", metadata)
        position, topics = 6, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            (topic,) = struct.unpack_from(f">{length}s", metadata, position + 2)
            topics.append(topic.decode())
            position += 2 + length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def topics_of_all(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of the members reads; None if one of their subscriptions cannot be read."""
    topics: frozenset[str] = frozenset()
    for metadata in subscriptions:
        more = subscribed_topics(metadata)
        if more is None:
            return None
        topics |= more
    return topics
