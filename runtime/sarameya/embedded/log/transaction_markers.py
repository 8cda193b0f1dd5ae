"""Transaction markers: the control batches that commit or abort a transaction in a log (KIP-98). Pure."""

from __future__ import annotations

import struct

from sarameya.errors import RecordError
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, build, crc32c, decode

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_ABORT, _COMMIT = 0, 1

_CRC_AT, _ATTRIBUTES_AT = 17, 21
_CONTROL = 0x20


def build_marker(
    producer_id: int, producer_epoch: int, timestamp: int, *, committed: bool, coordinator_epoch: int = 0
) -> bytes:
    """Return a control batch with the single record that ends a transaction.

    Args:
        producer_id: The producer.
        producer_epoch: Its epoch.
        timestamp: Time of the marker in ms.
        committed: True to commit, False to abort.
        coordinator_epoch: Epoch of the transaction coordinator.
    """
    key, value = _KEY.pack(0, _COMMIT if committed else _ABORT), _VALUE.pack(0, coordinator_epoch)
    data_batch = build(
        [(timestamp, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        transactional=True,
    )
    batch = bytearray(data_batch)
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes | _CONTROL)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return bytes(batch)


def is_commit(marker: RawBatch, partition: TopicPartition) -> bool | None:
    """Return True for a commit marker, False for an abort marker, and None for any other or an unreadable batch."""
    try:
        keys = [record.key for record in decode(marker, partition)]
    except RecordError:
        return None
    if not keys or keys[0] is None or len(keys[0]) < _KEY.size:
        return None
    marker_type = _KEY.unpack_from(keys[0])[1]
    return marker_type == _COMMIT if marker_type in (_ABORT, _COMMIT) else None
