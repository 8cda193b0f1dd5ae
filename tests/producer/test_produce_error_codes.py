import pytest

from sarameya import KafkaError, MessageTooLargeError, TopicAuthorizationError, UnknownTopicError
from sarameya.error_codes import ErrorCode
from sarameya.producer.verdicts import VERDICTS, Verdict, refusal, verdict_on

RETRIED = {Verdict.AGAIN, Verdict.ELSEWHERE, Verdict.RENUMBER, Verdict.HALVE, Verdict.STORED, Verdict.FENCED}


def test_each_verdict_has_an_error_code():
    assert {verdict_on(code) for code in ErrorCode} == set(Verdict)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        9999,
    ],
)
def test_permanent_errors_are_refused(code):
    assert verdict_on(code) is Verdict.REFUSED


def test_table_lists_no_refused_codes():
    assert set(VERDICTS.values()) == RETRIED


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError, "grant this principal WRITE"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, KafkaError, "grant this principal WRITE"),
        (ErrorCode.MESSAGE_TOO_LARGE, MessageTooLargeError, "max.message.bytes"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicError, "create the topic"),
        (ErrorCode.INVALID_RECORD, KafkaError, "cleanup.policy=compact"),
    ],
)
def test_refusal_has_a_type_and_advice(code, kind, words):
    error = refusal(code, "record for orders-0", "the broker's own words")

    assert type(error) is kind
    assert words in str(error)
    assert "the broker's own words" in str(error)
