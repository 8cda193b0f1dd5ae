"""The topics that a group subscribes to, as far as the coordinator can read the clients' own format.

Only subscriptions of the protocol type "consumer" are read, and only their topics: every version begins with these.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of one consumer's subscription; None if it cannot be read."""
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
    """Return the topics that any member subscribes to; None if a subscription cannot be read."""
    topics: frozenset[str] = frozenset()
    for metadata in subscriptions:
        more = subscribed_topics(metadata)
        if more is None:
            return None
        topics |= more
    return topics
