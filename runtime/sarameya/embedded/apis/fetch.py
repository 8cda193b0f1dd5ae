"""Fetch: record batches from logs, as soon as there are enough bytes or the client has waited long enough.

This module has the wire format: topic names or ids (KIP-516), with or without a fetch session (KIP-227,
`fetch_sessions`). `fetch_reading` reads the logs.

Fetches of other brokers are not served, since followers share their leader's log here.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import FetchResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.fetch_reading import READ_COMMITTED, DelayedFetch, FetchLimits, ReadingBroker
from sarameya.embedded.apis.leaders import endpoints
from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.fetch_sessions import (
    NO_SESSION,
    FetchContext,
    FetchPartition,
    FetchSessionResponse,
    PartitionKey,
    PartitionReadResult,
    Partitions,
)
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData

_BY_TOPIC_ID = 13
"""First version that names topics by id."""
_FROM_FOLLOWERS = 11
"""First version in which consumers may read from followers and send their rack (KIP-392)."""
_RETURNS_LEADERS = 16
"""First version whose responses name the new leader (KIP-951)."""

_MAX_BYTES = 55 * 1024 * 1024
"""Kafka's broker setting `fetch.max.bytes`: the upper limit of a response, whatever the client requests."""

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Error codes of the response as a whole (KIP-227); any other code is returned for each partition."""


def answer(call: Call) -> None:
    context = _begin(call)
    if context is None:
        return
    body = call.body
    limits = FetchLimits(
        max_wait=max(body.max_wait_ms, 0) / 1000,
        min_bytes=body.min_bytes,
        max_bytes=min(body.max_bytes, _MAX_BYTES),
        read_committed=body.isolation_level == READ_COMMITTED,
    )
    broker = ReadingBroker(
        call.cluster, call.node_id, serves_as_follower=call.version >= _FROM_FOLLOWERS, rack=body.rack_id
    )
    fetch = DelayedFetch(broker, context, limits, call.now, lambda found: call.reply(_response(call, found)))
    call.cluster.fetches.try_complete_else_watch(fetch, fetch.keys(), call.now)


def refuse(call: Call, code: ErrorCode) -> None:
    """Respond with `code` for every partition, and keep the session. A session error is returned once instead."""
    if code in _SESSION_ERRORS:
        call.reply(FetchResponse(error_code=code, session_id=NO_SESSION, responses=[]))
        return
    context = _begin(call)
    if context is not None:
        reads = [(partition, PartitionReadResult(error=code, aborted=())) for partition in context.partitions]
        call.reply(_response(call, context.answer(reads, call.now)))


def _begin(call: Call) -> FetchContext | None:
    """Start the fetch in its session. If it is refused as a whole, send the response and return None."""
    body = call.body
    by_id = call.version >= _BY_TOPIC_ID
    try:
        return call.cluster.fetch_sessions(call.node_id).begin(
            body.session_id,
            body.session_epoch,
            _wanted(body, call.cluster, by_id),
            _forgotten(body, by_id),
            uses_topic_ids=by_id,
            now=call.now,
        )
    except Refused as refused:
        call.reply(FetchResponse(error_code=refused.code, session_id=NO_SESSION, responses=[]))
        return None


def _wanted(body: Any, cluster: ClusterState, by_id: bool) -> Partitions:
    """Return the partitions by key. For a repeated partition, the last entry replaces the first in its place."""
    wanted: Partitions = {}
    for entry in body.topics:
        topic_id = entry.topic_id if by_id else None
        topic = cluster.topics.by_id(topic_id) if topic_id is not None else None
        name = topic.name if topic else None if by_id else entry.topic
        for requested in entry.partitions:
            partition = FetchPartition(
                name,
                topic_id,
                requested.partition,
                requested.fetch_offset,
                requested.partition_max_bytes,
                requested.current_leader_epoch,
                requested.last_fetched_epoch,
            )
            wanted[partition.key] = partition
    return wanted


def _forgotten(body: Any, by_id: bool) -> list[PartitionKey]:
    return [
        (entry.topic_id if by_id else entry.topic, number)
        for entry in body.forgotten_topics_data or ()
        for number in entry.partitions
    ]


def _response(call: Call, found: FetchSessionResponse) -> Any:
    returns_leaders = call.version >= _RETURNS_LEADERS
    leaders = {read.leader[0] for _, read in found.reads if read.leader is not None}
    return FetchResponse(
        error_code=found.error,
        session_id=found.session_id,
        responses=_topics(found, returns_leaders),
        node_endpoints=endpoints(call.cluster, leaders, FetchResponse.NodeEndpoint) if returns_leaders else [],
    )


def _topics(found: FetchSessionResponse, returns_leaders: bool) -> list[Any]:
    """Return the partitions in order, grouped by topic if they follow each other."""
    topics: list[Any] = []
    last: tuple[Any, str | None] | None = None
    for partition, read in found.reads:
        topic = (partition.topic_id, None if partition.topic_id else partition.topic)
        if topic != last:
            last = topic
            topics.append(_Topic(topic=partition.topic, topic_id=partition.topic_id, partitions=[]))
        topics[-1].partitions.append(_partition(partition.partition, read, returns_leaders))
    return topics


def _partition(number: int, read: PartitionReadResult, returns_leader: bool) -> Any:
    aborted = read.aborted
    leader = read.leader if returns_leader else None
    return _Partition(
        partition_index=number,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=read.diverging and _Partition.EpochEndOffset(*read.diverging),
        current_leader=leader and _Partition.LeaderIdAndEpoch(*leader),
        aborted_transactions=None if aborted is None else [_Partition.AbortedTransaction(*entry) for entry in aborted],
        preferred_read_replica=read.preferred_read_replica,
        records=read.records,
    )
