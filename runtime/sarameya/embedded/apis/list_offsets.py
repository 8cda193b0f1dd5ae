"""ListOffsets: a partition's first and last offset, or the offset of a time (KIP-79, KIP-734)."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from kafka.protocol.consumer import ListOffsetsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.fetch_reading import READ_COMMITTED
from sarameya.embedded.log.partition_log import PartitionLog, TimestampedOffset
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.errors import RecordError
from sarameya.model import NO_TIMESTAMP

_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Partition = _Topic.ListOffsetsPartitionResponse

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_FIRST_VERSIONS = {_LATEST: 0, _EARLIEST: 0, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
"""First version of each special (negative) timestamp. All other negative timestamps are refused."""

_HAS_NOT_AVAILABLE = 5
"""First version with OFFSET_NOT_AVAILABLE."""


def answer(call: Call) -> None:
    counts = Counter((topic.name, p.partition_index) for topic in call.body.topics for p in topic.partitions)
    topics: dict[str, dict[int, Any]] = {}
    for topic in call.body.topics:
        partitions = topics.setdefault(topic.name, {})
        for requested in topic.partitions:
            number = requested.partition_index
            partitions[number] = _offset(call, topic.name, requested, is_repeated=counts[topic.name, number] > 1)
    call.reply(
        ListOffsetsResponse(
            topics=[_Topic(name=name, partitions=list(partitions.values())) for name, partitions in topics.items()]
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return ListOffsetsResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[_Partition(partition_index=p.partition_index, error_code=code) for p in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _offset(call: Call, topic: str, requested: Any, *, is_repeated: bool) -> Any:
    try:
        if is_repeated:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"the request names {topic}-{requested.partition_index} more than once"
            )
        if requested.timestamp < 0 and call.version < _FIRST_VERSIONS.get(requested.timestamp, math.inf):
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION, f"version {call.version} has no timestamp {requested.timestamp}"
            )
        log = call.cluster.led_partition(
            call.node_id, topic, requested.partition_index, requested.current_leader_epoch
        ).log
        found = _find(call, log, requested.timestamp)
    except Refused as refused:
        return _Partition(partition_index=requested.partition_index, error_code=refused.code)
    except RecordError:  # a test has put broken bytes into the log
        return _Partition(partition_index=requested.partition_index, error_code=ErrorCode.CORRUPT_MESSAGE)
    if found is None:
        return _Partition(partition_index=requested.partition_index, error_code=ErrorCode.NONE)
    return _Partition(
        partition_index=requested.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(call: Call, log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
    """Return the offset for `timestamp`, or None if no offset that consumers may read matches.

    Consumers may read up to the high watermark, or up to the last stable offset if they read only committed records
    (KIP-98).

    Raises:
        Refused: A leader that was just elected does not know its high watermark yet (KIP-207).
    """
    if timestamp == _LATEST_TIERED:
        return None
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):  # no log has remote segments (KIP-405)
        return TimestampedOffset(log.start_offset, NO_TIMESTAMP, log.epoch_of(log.start_offset))
    committed = call.body.isolation_level == READ_COMMITTED
    end = log.last_stable_offset(log.high_watermark) if committed else log.high_watermark
    found = None
    if timestamp == _MAX_TIMESTAMP:
        found = log.latest_by_time()
    elif timestamp != _LATEST:
        found = log.offset_for_time(timestamp)
    if found is not None and found.offset < end:
        return found
    if log.leader_epoch_start > log.high_watermark:
        raise Refused(
            ErrorCode.OFFSET_NOT_AVAILABLE if call.version >= _HAS_NOT_AVAILABLE else ErrorCode.LEADER_NOT_AVAILABLE,
            f"{log.partition}: the high watermark {log.high_watermark} is below the start of the leader epoch",
        )
    return TimestampedOffset(end, NO_TIMESTAMP, log.leader_epoch) if timestamp == _LATEST else None
