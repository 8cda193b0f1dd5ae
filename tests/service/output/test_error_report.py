from __future__ import annotations

from pathlib import Path

import pytest

from sarameya import RegistryError, RegistryRefusedError, UnknownSubjectError
from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    ClaimError,
    CommitError,
    ConfigError,
    ConnectError,
    GroupAuthorizationError,
    HandlerError,
    NoCommittedOffsetError,
    OffsetOutOfRangeError,
    PropertiesError,
    SarameyaError,
    UnsupportedVersionError,
)
from sarameya.group.session_machine.failures import reader_failure
from sarameya.group.session_machine.messages import ReaderFailed
from sarameya.model import TopicPartition
from sarameya.service.app.app_file import AppFileError
from sarameya.service.output.error_report import ExitCode, error_lines, exit_code, report
from sarameya_handlers.landing.errors import ForeignChainError, MovedCommitError
from sarameya_handlers.spark.errors import SparkGoneError, SparkStartError
from sarameya_handlers.spark.poison.poison_search import PoisonError
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError, TooManyPartitionsError


def claim_error(partition: int, offset: int, cause: Exception) -> ClaimError:
    return ClaimError(TopicPartition("orders", partition), offset, 3, cause)


class WithoutTextError(Exception):
    """An exception whose text cannot be read, like pyspark's after its JVM has died."""

    def __str__(self) -> str:
        raise AssertionError("no JVM")


def test_nested_exception_groups_have_a_line_for_each_failure() -> None:
    error = ExceptionGroup(
        "outer",
        [
            ExceptionGroup("inner", [claim_error(0, 17, ValueError("no number")), claim_error(1, 4, KeyError("id"))]),
            ConnectError("no broker"),
        ],
    )
    assert error_lines(error) == [
        "orders-0 at offset 17, generation 3: ValueError: no number",
        "orders-1 at offset 4, generation 3: KeyError: 'id'",
        "no broker; start the broker, or correct bootstrap_servers",
    ]


def test_repeated_failure_is_reported_once() -> None:
    assert error_lines(ExceptionGroup("", [HandlerError("no Java"), HandlerError("no Java")])) == ["no Java"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("what\n\tat org.apache.spark.Stack(Stack.java:1)"), "ValueError: what"),
        (ValueError("\n  late start\nmore"), "ValueError: late start"),
        (ValueError(), "ValueError"),
        (SarameyaError("ours"), "ours"),
        (HandlerError("no JVM:\nits last words"), "no JVM:\nits last words"),
        (
            claim_error(0, 1, ValueError("what\n\tat Stack.java")),
            "orders-0 at offset 1, generation 3: ValueError: what",
        ),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (ValueError("GET https://me:sesame@registry/ failed"), "ValueError: GET https://me:***@registry/ failed"),
        (claim_error(0, 1, ValueError("token=x")), "orders-0 at offset 1, generation 3: ValueError: token=***"),
        (HandlerError("no server: sc://here/;token=sesame"), "no server: sc://here/;token=***"),
        (WithoutTextError(), "WithoutTextError"),
        (claim_error(0, 1, WithoutTextError()), "ClaimError"),
    ],
)
def test_error_becomes_one_line(error: Exception, line: str) -> None:
    assert error_lines(error) == [line]


def test_app_file_error_becomes_a_line_for_each_problem() -> None:
    assert error_lines(AppFileError(Path("a.toml"), ["x = 1: no", "y = 2: no"])) == [
        "a.toml: x = 1: no",
        "a.toml: y = 2: no",
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x", 1, "no"), ExitCode.CONFIGURATION),
        (PropertiesError(("no",)), ExitCode.CONFIGURATION),
        (HandlerError("no such handler"), ExitCode.CONFIGURATION),
        (AppFileError(Path("a.toml"), ["no"]), ExitCode.CONFIGURATION),
        (GroupAuthorizationError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "join"), ExitCode.CONFIGURATION),
        (CommitError(ErrorCode.ILLEGAL_GENERATION, "commit"), ExitCode.FAILURE),
        (OffsetOutOfRangeError(TopicPartition("orders", 0), 9, 0, 5), ExitCode.CONFIGURATION),
        (NoCommittedOffsetError("g", (TopicPartition("orders", 0),)), ExitCode.CONFIGURATION),
        (claim_error(0, 1, MovedCommitError("the group's commit stands beyond")), ExitCode.CONFIGURATION),
        (claim_error(0, 1, ExceptionGroup("", [ForeignChainError("of another group")])), ExitCode.CONFIGURATION),
        (claim_error(0, 1, PoisonError("Set dead_letters to go on without them")), ExitCode.CONFIGURATION),
        (claim_error(0, 1, SchemaMismatchError("set evolve_schema = true")), ExitCode.CONFIGURATION),
        (claim_error(0, 1, TooManyPartitionsError("partition it more coarsely")), ExitCode.CONFIGURATION),
        (claim_error(0, 1, UnknownSubjectError("no such subject")), ExitCode.CONFIGURATION),
        (claim_error(0, 1, RegistryRefusedError("check username")), ExitCode.CONFIGURATION),
        (claim_error(0, 1, RegistryError("it does not answer")), ExitCode.FAILURE),
        (UnsupportedVersionError("leave group_instance_id out"), ExitCode.CONFIGURATION),
        (SparkStartError("Spark's JVM was killed"), ExitCode.FAILURE),
        (SparkGoneError("Spark's JVM has died"), ExitCode.FAILURE),
        (OSError(28, "No space left on device"), ExitCode.FAILURE),
        (reader_failure(ReaderFailed("run", None, -1, ValueError("a bug")), 3), ExitCode.FAILURE),
        (reader_failure(ReaderFailed("run", None, -1, HandlerError("no such column")), 3), ExitCode.CONFIGURATION),
        (ConnectError("no broker"), ExitCode.FAILURE),
        (ValueError("bug"), ExitCode.FAILURE),
        (ExceptionGroup("", [ValueError(), ExceptionGroup("", [HandlerError("x")])]), ExitCode.CONFIGURATION),
        (ExceptionGroup("", [claim_error(0, 1, ValueError())]), ExitCode.FAILURE),
    ],
)
def test_fault_64_exit_code_2_is_for_permanent_errors(error: Exception, code: ExitCode) -> None:
    assert exit_code(error) is code


def test_report_of_a_sarameya_error_has_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(SarameyaError("ours"), debug=False) is ExitCode.FAILURE
    assert capsys.readouterr() == ("", "sarameya: error: ours\n")


def test_report_of_a_foreign_error_suggests_debug(capsys: pytest.CaptureFixture[str]) -> None:
    report(ValueError("bug"), debug=False)
    assert capsys.readouterr().err == "sarameya: error: ValueError: bug\nsarameya: add --debug to see the traceback\n"


def test_report_with_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("bug: password=sesame")
    except ValueError as error:
        report(error, debug=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2:] == ["ValueError: bug: password=***", "sarameya: error: ValueError: bug: password=***"]
