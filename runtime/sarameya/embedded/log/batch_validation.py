"""Checks of a producer's batch before it is appended. Pure.

Sequence numbers of idempotent producers are checked by `producer_state`.
"""

from __future__ import annotations

from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.errors import RecordError
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, crc_matches, split


def validated(batch: bytes, partition: TopicPartition, end_offset: int, max_size: int) -> RawBatch:
    """Check that `batch` is exactly one valid v2 batch, including its CRC, and return its header.

    Args:
        batch: The bytes as the producer sent them.
        partition: The partition, for error messages.
        end_offset: The log's end offset, for error messages.
        max_size: The largest batch that is accepted, in bytes.

    Raises:
        Refused: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD or UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    if len(batch) > max_size:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{partition}: the batch has {len(batch)} bytes, at most {max_size} are allowed",
        )
    try:
        raws = list(split(batch, partition, end_offset))
    except RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if not raws or sum(len(raw.data) for raw in raws) != len(batch):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{partition}: the batch is incomplete")
    raw = raws[0]
    if raw.magic != 2:
        raise Refused(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"{partition}: record format v{raw.magic} is not supported, only v2",
        )
    if len(raws) != 1:
        raise Refused(ErrorCode.INVALID_RECORD, f"{partition}: expected one batch, got {len(raws)}")
    if not crc_matches(raw):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{partition}: the batch's CRC does not match its bytes")
    count = raw.last_offset - raw.base_offset + 1
    if raw.base_offset != 0 or raw.record_count != count or raw.is_control:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"{partition}: a producer's batch must start at offset 0, have the right record count and not be a "
            f"control batch",
        )
    if raw.producer_id >= 0 and (raw.producer_epoch < 0 or raw.base_sequence < 0):
        raise Refused(
            ErrorCode.INVALID_RECORD, f"{partition}: the batch has a producer id but no epoch or sequence number"
        )
    return raw
