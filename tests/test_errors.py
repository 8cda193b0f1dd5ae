import inspect
import pickle
from pathlib import Path

import pytest

from sarameya import errors
from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    ADVICE,
    AssignorError,
    ClaimError,
    CommitError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    CorruptRecordError,
    FencedInstanceError,
    GroupAuthorizationError,
    GroupError,
    InterceptorError,
    KafkaError,
    LogTruncatedError,
    NoCommittedOffsetError,
    OffsetOutOfRangeError,
    PropertiesError,
    RequestTimeoutError,
    SarameyaError,
    TopicAuthorizationError,
    UnknownTopicError,
    kafka_error,
)
from sarameya.model import TopicPartition

JAVA_CODES = Path(__file__).parent / "protocol" / "golden" / "error_codes.txt"
PARTITION = TopicPartition("orders", 3)


def test_error_codes_equal_those_of_kafka():
    """The file was written by `protocol/golden/Golden.java` with kafka-clients 4.1.0."""
    java = {name: int(code) for code, name in map(str.split, JAVA_CODES.read_text().splitlines())}
    assert {code.name: code.value for code in ErrorCode} == java


def test_unknown_error_code_is_described_by_its_number():
    assert ErrorCode.of(16) is ErrorCode.NOT_COORDINATOR
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.describe(16) == "NOT_COORDINATOR (16)"
    assert ErrorCode.describe(9999) == "error code 9999"


# -- the hierarchy -----------------------------------------------------------------------------------------

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, SarameyaError)]


def drawn_hierarchy() -> dict[str, str | None]:
    """Return each class's parent, as drawn in the module's docstring."""
    parents: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        words = line.replace("│", " ").replace("├──", "   ").replace("└──", "   ").split()
        if not words or not line.startswith("    ") or not words[0].endswith("Error"):
            continue
        depth = line.index(words[0])
        path = [(d, name) for d, name in path if d < depth]
        parents[words[0]] = path[-1][1] if path else None
        path.append((depth, words[0]))
    return parents


def test_hierarchy_equals_the_drawing():
    actual = {c.__name__: c.__bases__[0].__name__ for c in CLASSES if c is not SarameyaError}
    assert drawn_hierarchy() == actual | {"SarameyaError": None}


def test_retriable_errors_are_marked_in_the_drawing():
    drawn = {line.split("─")[-1].split()[0] for line in errors.__doc__.splitlines() if "(retriable)" in line}
    assert {c.__name__ for c in CLASSES if c.retriable} == drawn | {"ConnectError"}


EXAMPLES = [
    (ConfigError("autocommit", 5, "must be true or false"), "autocommit = 5: must be true or false"),
    (PropertiesError(("a = 1: no", "b = 2: no")), "a = 1: no\nb = 2: no"),
    (ConnectError("localhost:9092: refused"), "localhost:9092: refused"),
    (ConnectionLostError("closed"), "closed"),
    (RequestTimeoutError("no answer"), "no answer"),
    (KafkaError(16, "heartbeat"), "heartbeat: NOT_COORDINATOR (16)"),
    (KafkaError(24, "join", "the group id is empty"), "join: INVALID_GROUP_ID (24); the group id is empty"),
    (
        OffsetOutOfRangeError(PARTITION, 5, 10, 20),
        "orders-3: offset 5 is outside the log [10, 20) (5 offsets were deleted unread); set offset_out_of_range to "
        "'oldest', 'newest', a time or a duration, or reset the group's offset",
    ),
    (
        OffsetOutOfRangeError(PARTITION, 25, 10, 20),
        "orders-3: offset 25 is outside the log [10, 20); set offset_out_of_range to 'oldest', 'newest', a time or a "
        "duration, or reset the group's offset",
    ),
    (
        NoCommittedOffsetError("g", (PARTITION, PARTITION)),
        "group 'g' has committed no offset for orders-3 and 1 more, and offset_initial is 'fail': commit one (sarameya "
        "groups offsets reset g --topic orders --to oldest), return one from start_offset, or set offset_initial to "
        "'oldest', 'newest', a time or a duration",
    ),
    (
        NoCommittedOffsetError("", (PARTITION,)),
        "no start offset for orders-3, and offset_initial is 'fail': pass an offset, or set offset_initial",
    ),
    (
        LogTruncatedError(PARTITION, 20, 15),
        "orders-3: the log was truncated below offset 20. Records read from offset 15 on are not in it: undo their "
        "effects and reset the group's offset to 15, or set offset_out_of_range to another policy than 'fail' to "
        "continue there",
    ),
    (AssignorError("weighted", "it raised"), "assignor 'weighted': it raised"),
    (CorruptRecordError(*PARTITION, 5, "no CRC"), "orders-3 at offset 5: no CRC"),
    (
        InterceptorError("Tracing", PARTITION, 5, 9, ValueError("bad")),
        "interceptor Tracing, orders-3, offsets 5 to 9: ValueError: bad",
    ),
    (
        ClaimError(PARTITION, 5, 2, ValueError("bad")),
        "orders-3 at offset 5, generation 2: ValueError: bad",
    ),
]
each_example = pytest.mark.parametrize(("error", "text"), EXAMPLES, ids=[type(e).__name__ for e, _ in EXAMPLES])


@each_example
def test_error_text_has_event_and_place(error, text):
    assert str(error) == text


@each_example
def test_error_survives_pickling(error, text):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == text


@each_example
def test_error_raised_again_is_a_new_equal_error(error, text):
    cause = OSError("socket")
    try:
        raise error from cause
    except SarameyaError as raised:
        fresh = raised.again()
    assert fresh is not error
    assert (type(fresh), str(fresh)) == (type(error), text)
    assert fresh.__cause__ is cause
    assert fresh.__traceback__ is None


def test_config_error_is_a_value_error():
    assert issubclass(ConfigError, ValueError)


# -- codes to errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, UnknownTopicError),
        (ErrorCode.NOT_COORDINATOR, KafkaError),
        (9999, KafkaError),
    ],
)
def test_code_becomes_its_typed_error(code, error_class):
    error = kafka_error(code, "doing")
    assert type(error) is error_class
    assert (error.code, error.context) == (code, "doing")


def test_code_without_a_class_becomes_the_fallback():
    assert type(kafka_error(ErrorCode.INVALID_SESSION_TIMEOUT, "join", GroupError)) is GroupError
    assert type(kafka_error(ErrorCode.FENCED_INSTANCE_ID, "commit", CommitError)) is FencedInstanceError


@pytest.mark.parametrize("code", ADVICE, ids=lambda code: code.name)
def test_error_text_has_the_advice(code):
    assert ADVICE[code] in str(kafka_error(code, "doing"))
