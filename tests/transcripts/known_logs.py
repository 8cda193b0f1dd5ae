"""Responses to requests about logs that differ from Apache Kafka 4.1's, on purpose or since a broker is older.

Each row has its reason.
"""

from __future__ import annotations

from tests.transcripts.known import Known, fields
from tests.transcripts.responses import ABSENT

_PRODUCED = "responses.*.partition_responses.0"
_LISTED = "topics.*.partitions.0"

EMBEDDED_BROKER = (
    Known(
        "here every fault of a batch has an error message; Kafka has one only for faults of its records",
        "*",
        "* PRODUCE*",
        "responses.*.partition_responses.*.error_message",
        "None",
        "<text>",
    ),
    Known(
        "for a duplicate Kafka returns the timestamp of the first batch as its log append time; here there is a log "
        "append time only if the log has one",
        "*",
        "* PRODUCE*",
        f"{_PRODUCED}.log_append_time_ms",
        "1600000000000",
        ABSENT,
    ),
    *fields(
        "a batch that cannot be decompressed is an internal error of Kafka; here it is a corrupt batch",
        "produce: a batch with the wrong codec",
        "* PRODUCE",
        (f"{_PRODUCED}.error_code", "UNKNOWN_SERVER_ERROR", "CORRUPT_MESSAGE"),
        (f"{_PRODUCED}.log_start_offset", "0", "-1"),
    ),
    *fields(
        "here the check of the header finds a last offset before the first, and all its faults are a corrupt batch",
        "produce: a batch that is broken",
        "k PRODUCE",
        (f"{_PRODUCED}.error_code", "INVALID_RECORD", "CORRUPT_MESSAGE"),
        (f"{_PRODUCED}.log_start_offset", "0", "-1"),
    ),
    *fields(
        "Kafka remembers the highest timestamp of deleted records while their file exists; here it forgets them",
        "list offsets: a log that begins later",
        "a LIST_OFFSETS #8",
        (f"{_LISTED}.timestamp", "1600000000009", "-1"),
        (f"{_LISTED}.offset", "1", "-1"),
        (f"{_LISTED}.leader_epoch", "0", "-1"),
    ),
)

_OLD_FORMATS = "Kafka 3 accepts records in the formats before v2 (KIP-98)"
_FUTURE = "Kafka 3 accepts records of any time unless it is configured otherwise (KIP-937)"

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
