"""Which batches of a fetch belong to aborted transactions (KIP-98). Pure; only headers and markers are read.

Under read_committed a broker sends the aborted transactions that overlap what it sends, each with its producer
and first offset. From there on that producer's transactional batches are aborted, until its ABORT marker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from sarameya.config import IsolationLevel
from sarameya.model import TopicPartition
from sarameya.protocol.records import RawBatch, decode

ISOLATION_LEVELS: Mapping[IsolationLevel, int] = {"read_uncommitted": 0, "read_committed": 1}
"""As requests number them."""

_MARKER = struct.Struct(">hh")  # version, type
_ABORT = 0
_MARKER_BATCH_BYTES = 4096
"""More than any marker needs. Brokers never compress one, so nothing large can be meant by it."""


def aborted_batches(
    batches: Sequence[RawBatch], aborted: Iterable[tuple[int, int]], partition: TopicPartition
) -> frozenset[int]:
    """The base offsets of aborted batches, given (producer id, first offset) of the aborted transactions."""
    waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    producers: set[int] = set()
    found: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1][1] <= batch.last_offset:
            producers.add(waiting.pop()[0])
        if batch.is_control:
            if batch.producer_id in producers and _is_abort_marker(batch, partition):
                producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            found.add(batch.base_offset)
    return frozenset(found)


def _is_abort_marker(batch: RawBatch, partition: TopicPartition) -> bool:
    for record in decode(batch, partition, limit=_MARKER_BATCH_BYTES):
        if record.key is not None and len(record.key) >= _MARKER.size:
            return bool(_MARKER.unpack_from(record.key)[1] == _ABORT)
    return False
