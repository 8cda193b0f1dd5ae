"""Whether what a producer sends may go into a log. Pure; the numbers of idempotent producers are `producer_state`'s."""

from __future__ import annotations

from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.errors import RecordError
from sarameya.model import TopicPartition
from sarameya.protocol.records import RawBatch, crc_matches, split


def validated(batch: bytes, partition: TopicPartition, end_offset: int, max_size: int) -> RawBatch:
    """The header of the one v2 batch that `batch` must be, its CRC checked.

    `end_offset`, where the log ends, and `partition` are for errors; `max_size` is in bytes. Raises Refused:
    CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    if len(batch) > max_size:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{partition}: the batch has {len(batch)} bytes, {max_size} are allowed",
        )
    try:
        raws = list(split(batch, partition, end_offset))
    except RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if not raws or sum(len(raw.data) for raw in raws) != len(batch):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{partition}: the batch is cut off")
    raw = raws[0]
    if raw.magic != 2:
        raise Refused(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"{partition}: record format v{raw.magic} is not taken, only v2",
        )
    if len(raws) != 1:
        raise Refused(ErrorCode.INVALID_RECORD, f"{partition}: {len(raws)} batches, one is allowed")
    if not crc_matches(raw):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{partition}: the batch's CRC does not match its bytes")
    count = raw.last_offset - raw.base_offset + 1
    if raw.base_offset != 0 or raw.record_count != count or raw.is_control:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"{partition}: a producer's batch starts at offset 0, counts its records and is no control batch",
        )
    if raw.producer_id >= 0 and (raw.producer_epoch < 0 or raw.base_sequence < 0):
        raise Refused(ErrorCode.INVALID_RECORD, f"{partition}: a producer id without epoch or sequence")
    return raw
