"""Responses to requests about logs that differ from Apache Kafka 4.1's, on purpose or by a broker's age.

Each row has its reason.
"""

from __future__ import annotations

from tests.transcripts.answers import ABSENT
from tests.transcripts.known import Known, fields

_PRODUCED = "responses.*.partition_responses.0"
_LISTED = "topics.*.partitions.0"

EMBEDDED_BROKER = (
    Known(
        "whatever is wrong with a batch is told; Kafka tells what is wrong with its records only",
        "*",
        "* PRODUCE*",
        "responses.*.partition_responses.*.error_message",
        "None",
        "<text>",
    ),
    Known(
        "of a duplicate Kafka tells when the first was made, as if it had been appended then; here there is a log "
        "append time only where the log has one",
        "*",
        "* PRODUCE*",
        f"{_PRODUCED}.log_append_time_ms",
        "1600000000000",
        ABSENT,
    ),
    *fields(
        "what cannot be decompressed is an unforeseen fault within Kafka, told as such; here it is what it is, corrupt",
        "produce: a batch that is not compressed as it says",
        "* PRODUCE",
        (f"{_PRODUCED}.error_code", "UNKNOWN_SERVER_ERROR", "CORRUPT_MESSAGE"),
        (f"{_PRODUCED}.log_start_offset", "0", "-1"),
    ),
    *fields(
        "an offset before the batch's first is found when its header is read, where all else is called corrupt",
        "produce: a batch that is broken",
        "k PRODUCE",
        (f"{_PRODUCED}.error_code", "INVALID_RECORD", "CORRUPT_MESSAGE"),
        (f"{_PRODUCED}.log_start_offset", "0", "-1"),
    ),
    *fields(
        "of records that were deleted Kafka remembers the highest timestamp while their file is there; here they are "
        "gone",
        "list offsets: a log that begins later",
        "a LIST_OFFSETS #8",
        (f"{_LISTED}.timestamp", "1600000000009", "-1"),
        (f"{_LISTED}.offset", "1", "-1"),
        (f"{_LISTED}.leader_epoch", "0", "-1"),
    ),
)

_OLD_FORMATS = "Kafka 3 takes records in the formats before v2 (KIP-98)"
_FUTURE = "Kafka 3 takes records of any time unless it is told otherwise (KIP-937)"

KAFKA_3_9 = (
    Known(_OLD_FORMATS, "produce: before there were record batches", "a PRODUCE", "", "hung up", "answered"),
    Known(_OLD_FORMATS, "produce: before there were record batches", "a LIST_OFFSETS", f"{_LISTED}.offset", "0", "1"),
    *fields(
        _FUTURE,
        "produce: records of the far future",
        "a PRODUCE",
        (f"{_PRODUCED}.error_code", "INVALID_TIMESTAMP", "NONE"),
        (f"{_PRODUCED}.base_offset", "-1", "0"),
        (f"{_PRODUCED}.record_errors.?.batch_index", "[02]", ABSENT),
        (f"{_PRODUCED}.record_errors.?.batch_index_error_message", "<text>", ABSENT),
        (f"{_PRODUCED}.error_message", "<text>", "None"),
    ),
)
