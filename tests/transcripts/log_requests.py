"""The steps of transcripts about logs: a function for each API, with the values of a correct client as defaults.

A partition is (name of a topic of the play, number); most transcripts use `ORDERS`. Requests have the fields of all
versions; a play omits those that its version lacks. Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from sarameya.protocol.versions import Api
from tests.transcripts.batches import Batch, batch
from tests.transcripts.script import FetchSession, Send, Topic, TopicId

Partition = tuple[str, int]

ORDERS: Partition = ("orders", 0)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
READ_COMMITTED = 1
MIB = 1 << 20


def produce(by: str, *values: str, to: Mapping[Partition, Any] | None = None, **fields: Any) -> Send:
    """Produce one batch of `values` to `ORDERS`, or the contents of `to` for each partition: bytes, or batches."""
    where = {name: fields.pop(name) for name in ("broker", "version") if name in fields}
    wanted = {ORDERS: batch(*values)} if to is None else to
    topics = _by_topic(
        {at: {"index": at[1], "records": _several(records)} for at, records in wanted.items()}, "name", "partition_data"
    )
    defaults = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000}
    return Send(by, Api.PRODUCE, {**defaults, **fields, "topic_data": topics}, **where)


def store(*values: str, to: Mapping[Partition, Any] | None = None, **where: Any) -> Send:
    """Put records into the log, by a Produce request whose response is not recorded."""
    return attrs.evolve(produce("somebody", *values, to=to, version=9, **where), recorded=False)


def _several(records: Any) -> Any:
    return (records,) if isinstance(records, Batch) else records


def list_offsets(
    by: str,
    wanted: Mapping[Partition, int] | int,
    *,
    also: Mapping[Partition, int] | None = None,
    epoch: int = -1,
    isolation: int = 0,
    **where: Any,
) -> Send:
    """Send a ListOffsets request for each partition and its time, or `ORDERS`. `also`: more entries in that request."""
    if isinstance(wanted, int):
        wanted = {ORDERS: wanted}
    topics = []
    for part in (wanted, also or {}):
        partitions = {
            at: {"partition_index": at[1], "current_leader_epoch": epoch, "timestamp": time}
            for at, time in part.items()
        }
        topics += _by_topic(partitions, "name", "partitions", with_id=False)
    fields = {"replica_id": -1, "isolation_level": isolation, "topics": topics, "timeout_ms": 5_000}
    return Send(by, Api.LIST_OFFSETS, fields, **where)


def epoch_end(by: str, *epochs: int, of: Iterable[Partition] = (ORDERS,), current: int = -1, **where: Any) -> Send:
    """Send an OffsetForLeaderEpoch request for the end of each epoch in each partition."""
    topics = _by_topic(
        {
            (*at, epoch): {"partition": at[1], "current_leader_epoch": current, "leader_epoch": epoch}
            for at in of
            for epoch in epochs
        },
        "topic",
        "partitions",
        with_id=False,
    )
    return Send(by, Api.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": topics}, **where)


@attrs.frozen
class At:
    """A partition's fields in a fetch."""

    offset: int
    epoch: int = -1
    """The leader epoch that the reader knows (KIP-320)."""
    last_epoch: int = -1
    """The leader epoch of the last record that it has read (KIP-595)."""
    max_bytes: int = MIB


def fetch(
    by: str,
    wanted: Mapping[Partition, At | int] | At | int | None = None,
    *,
    also: Mapping[Partition, At | int] | None = None,
    forgotten: Iterable[Partition] = (),
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MIB,
    isolation: int = 0,
    session: tuple[Any, int] = (0, -1),
    rack: str = "",
    recreated: bool = False,
    held: bool = False,
    **where: Any,
) -> Send:
    """Send a Fetch request for partitions from their positions, or for `ORDERS`.

    `session`: id and epoch. `also`: more entries in the same request. `recreated`: use the ids of the recreated topics.
    """
    if isinstance(wanted, At | int):
        wanted = {ORDERS: wanted}
    topics = [
        topic
        for part in (wanted or {}, also or {})
        for topic in _by_topic(
            {at: _fetched(at, place) for at, place in part.items()}, "topic", "partitions", recreated=recreated
        )
    ]
    fields = {
        "replica_id": -1,
        "max_wait_ms": max_wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": topics,
        "forgotten_topics_data": _by_topic({at: at[1] for at in forgotten}, "topic", "partitions", recreated=recreated),
        "rack_id": rack,
    }
    return Send(by, Api.FETCH, fields, may_be_held=held, **where)


def _fetched(at: Partition, place: At | int) -> Mapping[str, Any]:
    position = At(place) if isinstance(place, int) else place
    return {
        "partition": at[1],
        "current_leader_epoch": position.epoch,
        "fetch_offset": position.offset,
        "last_fetched_epoch": position.last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": position.max_bytes,
    }


def open_session(by: str, wanted: Mapping[Partition, At | int] | None = None, **fields: Any) -> Send:
    """Fetch in a new session (KIP-227)."""
    return fetch(by, wanted, session=(0, 0), **fields)


def next_fetch(by: str, epoch: int, wanted: Mapping[Partition, At | int] | None = None, **fields: Any) -> Send:
    """Fetch incrementally in the last session of `by`."""
    return fetch(by, wanted, session=(FetchSession(by), epoch), **fields)


def init_producer(by: str, transactional_id: Any = None, **fields: Any) -> Send:
    defaults = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    return Send(by, Api.INIT_PRODUCER_ID, {"transactional_id": transactional_id, **defaults, **fields})


def _by_topic(
    partitions: Mapping[Any, Any], name: str, inner: str, *, with_id: bool = True, recreated: bool = False
) -> list[Mapping[str, Any]]:
    """Group entries, by (topic, number, ...), into the request's structure for each topic."""
    topics: dict[str, list[Any]] = {}
    for at, entry in partitions.items():
        topics.setdefault(at[0], []).append(entry)
    return [
        {name: Topic(topic), **({"topic_id": TopicId(topic, recreated)} if with_id else {}), inner: entries}
        for topic, entries in topics.items()
    ]
