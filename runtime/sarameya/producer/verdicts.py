"""Meaning of a broker's error codes for produced batches: one table. Pure.

The table follows Kafka's own producer, idempotent and without transactions (TransactionManager.canRetry and
Sender.completeBatch of kafka-clients).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.error_codes import ErrorCode
from sarameya.errors import ADVICE, KafkaError, kafka_error


class Verdict(Enum):
    """Consequence of a response to a batch."""

    STORED = auto()
    """The batch is in the log."""
    AGAIN = auto()
    """Send the same bytes under the same sequence, after a backoff: if they are stored, the broker detects it."""
    ELSEWHERE = auto()
    """Send the same bytes to the leader that new metadata names."""
    RENUMBER = auto()
    """Send the records under the next epoch, from sequence 0 (KIP-360).

    Broker and producer disagree on the sequence, for example after the log was truncated.
    """
    HALVE = auto()
    """Send fewer records together; a single one is refused."""
    REFUSED = auto()
    """Raise to the sender. The next batch has a new epoch, since nobody knows the outcome of earlier attempts."""
    FENCED = auto()
    """Raise to the sender. The producer id is unusable: the next batches need another."""


VERDICTS: Mapping[ErrorCode, Verdict] = {
    ErrorCode.NONE: Verdict.STORED,
    # Stored long ago; the broker does not remember where.
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.STORED,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS: Verdict.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Verdict.AGAIN,
    ErrorCode.CORRUPT_MESSAGE: Verdict.AGAIN,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Verdict.AGAIN,
    # Returned only by InitProducerId.
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.AGAIN,
    ErrorCode.NOT_COORDINATOR: Verdict.AGAIN,
    ErrorCode.CONCURRENT_TRANSACTIONS: Verdict.AGAIN,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Verdict.ELSEWHERE,
    ErrorCode.LEADER_NOT_AVAILABLE: Verdict.ELSEWHERE,
    ErrorCode.BROKER_NOT_AVAILABLE: Verdict.ELSEWHERE,
    ErrorCode.REPLICA_NOT_AVAILABLE: Verdict.ELSEWHERE,
    ErrorCode.LISTENER_NOT_FOUND: Verdict.ELSEWHERE,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.ELSEWHERE,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Verdict.ELSEWHERE,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.ELSEWHERE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.ELSEWHERE,
    ErrorCode.KAFKA_STORAGE_ERROR: Verdict.ELSEWHERE,
    ErrorCode.NETWORK_EXCEPTION: Verdict.ELSEWHERE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.RENUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.RENUMBER,
    ErrorCode.MESSAGE_TOO_LARGE: Verdict.HALVE,
    ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.HALVE,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.FENCED,
}
"""Verdict on each code; all others are REFUSED."""

_ADVICE = {
    **ADVICE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant this principal WRITE and DESCRIBE on the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "grant this principal WRITE on the topic (before Kafka 3.0 also IDEMPOTENT_WRITE on the cluster)"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes, or send less",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise the topic's segment.bytes, or send less",
    ErrorCode.INVALID_TIMESTAMP: "see the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ErrorCode.INVALID_RECORD: "a topic with cleanup.policy=compact refuses records without a key",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker is too old for it: choose another compression",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer uses the same id, which should be impossible",
}


def verdict_on(code: int) -> Verdict:
    """Return the verdict on this code; an unknown one is REFUSED."""
    try:
        return VERDICTS.get(ErrorCode(code), Verdict.REFUSED)
    except ValueError:
        return Verdict.REFUSED


def refusal(code: int, what: str, message: str | None = None) -> KafkaError:
    """Return the typed error for a code that is raised. `message` is the broker's own text."""
    return kafka_error(code, f"{what} ({message})" if message else what, advice=_ADVICE)
