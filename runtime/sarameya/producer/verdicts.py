"""What a broker's error code means to what was produced: one table. Pure.

As Kafka's own producer meets them where it is idempotent and has no transactions (TransactionManager.canRetry and
Sender.completeBatch of kafka-clients).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from sarameya.error_codes import ErrorCode
from sarameya.errors import ADVICE, KafkaError, kafka_error


class Verdict(Enum):
    """What is done about an answer."""

    STORED = auto()
    """It stands in the log."""
    AGAIN = auto()
    """The same bytes under the same sequence, after a while: if they are stored, the broker finds out."""
    ELSEWHERE = auto()
    """The same, to whom new metadata names as the leader."""
    RENUMBER = auto()
    """The broker remembers other sequences than we do, as when its log was cut: the records go out again under the next
    epoch, from sequence 0 (KIP-360)."""
    HALVE = auto()
    """Fewer records together; one that is alone is refused."""
    REFUSED = auto()
    """Raised to who sent them. What comes next has a new epoch, since nobody knows what became of earlier tries."""
    FENCED = auto()
    """The same, but the producer id is of no use any more: the next ones go out under another."""


VERDICTS: Mapping[ErrorCode, Verdict] = {
    ErrorCode.NONE: Verdict.STORED,
    # Stored long ago, and the broker does not remember where.
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.STORED,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS: Verdict.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Verdict.AGAIN,
    ErrorCode.CORRUPT_MESSAGE: Verdict.AGAIN,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Verdict.AGAIN,
    # These of InitProducerId alone.
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
"""Every other code is REFUSED."""

_ADVICE = {
    **ADVICE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant this principal WRITE and DESCRIBE on the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "grant this principal WRITE on the topic (before Kafka 3.0 also IDEMPOTENT_WRITE on the cluster)"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes, or send less",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise the topic's segment.bytes, or send less",
    ErrorCode.INVALID_TIMESTAMP: "the topic's message.timestamp.before.max.ms and .after.max.ms say what it takes",
    ErrorCode.INVALID_RECORD: "a topic with cleanup.policy=compact takes no record without a key",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker is older than this: choose another compression",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has its id, which should not be",
}


def verdict_on(code: int) -> Verdict:
    """What is done about this code; one of a newer Kafka's is REFUSED."""
    try:
        return VERDICTS.get(ErrorCode(code), Verdict.REFUSED)
    except ValueError:
        return Verdict.REFUSED


def refusal(code: int, what: str, message: str | None = None) -> KafkaError:
    """The typed error for a code that is raised; `message` is what the broker says beside it."""
    return kafka_error(code, f"{what} ({message})" if message else what, advice=_ADVICE)
