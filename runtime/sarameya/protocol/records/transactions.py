"""Batches of aborted transactions in a fetch (KIP-98). Pure.

Under `read_committed` a broker sends, with the records, a list of the aborted transactions that overlap them: producer
id and first offset of each. From that offset on, the producer's transactional batches are aborted, up to its ABORT
marker. Only batch headers and markers are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from sarameya.config import IsolationLevel
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, decode

ISOLATION_LEVELS: Mapping[IsolationLevel, int] = {"read_uncommitted": 0, "read_committed": 1}
"""Isolation level -> its number in requests."""

_MARKER = struct.Struct(">hh")  # version, type
_ABORT = 0
_MARKER_BATCH_BYTES = 4096
"""Limit for the size of a marker batch. Brokers never compress markers, so a larger one is not legitimate."""


def aborted_batches(
    batches: Sequence[RawBatch],
    aborted: Iterable[tuple[int, int]],
    partition: TopicPartition,
    *,
    check_crc: bool = True,
) -> frozenset[int]:
    """Return the base offsets of aborted batches.

    Args:
        batches: The fetched batches, in offset order.
        aborted: (producer id, first offset) of the aborted transactions.
        partition: The partition, for errors.
        check_crc: Compare the checksums of markers.
    """
    waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    producers: set[int] = set()
    found: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1][1] <= batch.last_offset:
            producers.add(waiting.pop()[0])
        if batch.is_control:
            if batch.producer_id in producers and _is_abort_marker(batch, partition, check_crc):
                producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            found.add(batch.base_offset)
    return frozenset(found)


def _is_abort_marker(batch: RawBatch, partition: TopicPartition, check_crc: bool) -> bool:
    for record in decode(batch, partition, check_crc=check_crc, limit=_MARKER_BATCH_BYTES):
        if record.key is not None and len(record.key) >= _MARKER.size:
            return bool(_MARKER.unpack_from(record.key)[1] == _ABORT)
    return False
