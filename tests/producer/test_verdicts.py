import pytest

from sarameya import KafkaError, MessageTooLargeError, TopicAuthorizationError, UnknownTopicError
from sarameya.error_codes import ErrorCode
from sarameya.producer.verdicts import VERDICTS, Verdict, refusal, verdict_on

RETRIED = {Verdict.AGAIN, Verdict.ELSEWHERE, Verdict.RENUMBER, Verdict.HALVE, Verdict.STORED, Verdict.FENCED}


def test_every_verdict_is_that_of_some_code():
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
def test_what_does_not_pass_by_itself_is_refused(code):
    assert verdict_on(code) is Verdict.REFUSED


def test_table_holds_no_code_that_is_refused_anyway():
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
def test_refusal_is_typed_and_says_what_to_do(code, kind, words):
    error = refusal(code, "record for orders-0", "the broker's own words")

    assert type(error) is kind
    assert words in str(error)
    assert "the broker's own words" in str(error)
