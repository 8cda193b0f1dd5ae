"""Events about the work of handlers. The Spark sink and `MessageHandler` report them; other handlers may, too."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sarameya.model import TopicPartition
from sarameya.observe.events import Event


@attrs.frozen(slots=True, kw_only=True)
class LandingStarted(Event):
    """Start of a write of the records from `from_offset` up to `to_offset`."""

    partition: TopicPartition
    from_offset: int
    to_offset: int


@attrs.frozen(slots=True, kw_only=True)
class Landed(Event):
    """End of a write. `rows` and `size_bytes` are -1 if they are unknown."""

    partition: TopicPartition
    from_offset: int
    to_offset: int
    rows: int = -1
    size_bytes: int = -1
    seconds: float


@attrs.frozen(slots=True, kw_only=True)
class LandingFailed(Event):
    """A failed attempt to write. Another attempt follows, or the claim fails with this cause."""

    partition: TopicPartition
    from_offset: int
    to_offset: int
    cause: str


@attrs.frozen(slots=True, kw_only=True)
class DeadLettered(Event):
    """Records that cannot be written to the table, or handled, and are kept in `place`."""

    partition: TopicPartition
    count: int
    place: str


@attrs.frozen(slots=True, kw_only=True)
class SentToRetry(Event):
    """A message whose handling has failed, and which was sent to a retry topic, to be handled after `seconds`."""

    partition: TopicPartition
    offset: int
    topic: str
    seconds: float


@attrs.frozen(slots=True, kw_only=True)
class StoreUsed(Event):
    """Requests to the object store of a table, since the last event.

    Those of Spark, of delta-rs's checkpoints, and for dead letters are not among them.

    Attributes:
        requests: Number of requests by operation (put, copy, get, head, list, delete), without repeated ones.
        sent_bytes: Bytes of the objects that were put.
        received_bytes: Bytes of the objects that were read.
    """

    table: str
    requests: Mapping[str, int]
    sent_bytes: int
    received_bytes: int


@attrs.frozen(slots=True, kw_only=True)
class TableGrown(Event):
    """A table that is so large that starts and writes are slow. `what` names the part, and the command to run."""

    table: str
    what: str
