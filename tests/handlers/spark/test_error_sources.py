"""Errors of Spark 4.1, classic and Connect: their source, whether they may pass, and their text in one line."""

from __future__ import annotations

import pytest

from sarameya import ConnectError, HandlerError
from sarameya_handlers.spark.error_sources import ErrorSource, broken_class, jars_error, passes, source_of
from sarameya_handlers.spark.errors import LandingError, SparkGoneError, cause_of

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/app/transforms.py", line 3, in parse
    return float(x)
           ^^^^^^^^
{}
    and more of it
"""
STAGE = (
    "An error occurred while calling o86.save.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 63.0 failed 1 times, most "
    "recent failure: Lost task 0.0 in stage 63.0 (TID 64) (10.0.0.2 executor driver): {}\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)\n"
)
MALFORMED = """An error occurred while calling o99.save.
: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in \
record parsing: [null].
Parse Mode: FAILFAST. To process malformed records as null result, try setting the option 'mode' as 'PERMISSIVE'. \
SQLSTATE: 22023
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.malformed(QueryExecutionErrors.scala:1)
Caused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'abc'
"""
WRITING = """An error occurred while calling o86.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to x. SQLSTATE: 58030
\tat org.apache.spark.Some.thing(Some.scala:1)
Caused by: {}
"""
INVARIANT = (
    "An error occurred while calling o86.save.\n: org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: "
    "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: id.\n"
)
"""Delta's own text has no SQLSTATE."""


S3A = (
    "{kind}: getFileStatus on s3a://lake/orders/_delta_log: "
    "software.amazon.awssdk.services.s3.model.S3Exception: {message} (Service: S3, Status Code: {status}, Request ID: "
    "4442587FB7D0A2F9, Extended Request ID: x):{code}: {message}"
)
S3A_3_3 = (
    "{kind}: getFileStatus on s3a://lake/orders/_delta_log: "
    "com.amazonaws.services.s3.model.AmazonS3Exception: {message} (Service: Amazon S3; Status Code: {status}; "
    "Error Code: {code}; Request ID: 4442587FB7D0A2F9; S3 Extended Request ID: x; Proxy: null), "
    "S3 Extended Request ID: x:{code}"
)
"""Texts of S3 errors in Hadoop 3.4 and 3.3."""
SLOW_DOWN = {
    "kind": "org.apache.hadoop.fs.s3a.AWSServiceThrottledException",
    "message": "Please reduce your request rate.",
    "status": 503,
    "code": "SlowDown",
}
EXPIRED = {
    "kind": "org.apache.hadoop.fs.s3a.AWSBadRequestException",
    "message": "The provided token has expired.",
    "status": 400,
    "code": "ExpiredToken",
}
DENIED = {
    "kind": "java.nio.file.AccessDeniedException: s3a://lake/orders/_delta_log",
    "message": "Access Denied",
    "status": 403,
    "code": "AccessDenied",
}


class PySparkException(Exception):
    def __init__(self, text: str, state: str | None = None) -> None:
        super().__init__(text)
        self._state = state

    def getSqlState(self) -> str | None:
        return self._state


def error(name: str, text: str = "x", state: str | None = None, base: type[Exception] = PySparkException) -> Exception:
    """Return an error of a class with this name, as pyspark has it."""
    kind = type(name, (base,), {})
    return kind(text, state) if base is PySparkException else kind(text)


MKDIRS = "java.io.IOException: Mkdirs failed to create file:/lake/city={} (exists=false, cwd=file:/)"
UNMAPPABLE = "java.nio.file.InvalidPathException: Malformed input or input contains unmappable characters: /lake/city=x"

IllegalArgumentException = type("IllegalArgumentException", (PySparkException,), {})
JAVA = type("Py4JError", (Exception,), {})


@pytest.mark.parametrize(
    ("raised", "source"),
    [
        (error("NumberFormatException", state="22018", base=PySparkException), ErrorSource.RECORD),
        (type("NumberFormatException", (IllegalArgumentException,), {})("x", None), ErrorSource.RECORD),
        (error("SparkRuntimeException", "[USER_RAISED_EXCEPTION] cancelled", "P0001"), ErrorSource.RECORD),
        (error("SparkException", MALFORMED, "22023"), ErrorSource.RECORD),
        (error("Py4JJavaError", MALFORMED, base=JAVA), ErrorSource.RECORD),
        (error("PythonException", WORKER.format("ValueError: order was cancelled")), ErrorSource.RECORD),
        (error("PythonException", WORKER.format("KeyError: 'MemoryError'")), ErrorSource.RECORD),
        (error("Py4JJavaError", WRITING.format("X: [CAST_OVERFLOW] SQLSTATE: 22003"), base=JAVA), ErrorSource.RECORD),
        (error("SparkException", "[NOT_NULL_ASSERT_VIOLATION] SQLSTATE: 42000", "42000"), ErrorSource.RECORD),
        (error("SparkException", "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]", "23001"), ErrorSource.RECORD),
        (error("Py4JJavaError", INVARIANT, base=JAVA), ErrorSource.RECORD),
        (error("Py4JJavaError", WRITING.format(INVARIANT), base=JAVA), ErrorSource.RECORD),
        (error("AnalysisException", "[UNRESOLVED_COLUMN]", "42703"), ErrorSource.STATEMENT),
        (error("ParseException", "[PARSE_SYNTAX_ERROR]", "42601"), ErrorSource.STATEMENT),
        (error("AnalysisException", "an old one", None), ErrorSource.STATEMENT),
        (KeyError("column"), ErrorSource.STATEMENT),
        (LandingError("transform must return a DataFrame, not None"), ErrorSource.STATEMENT),
        (
            error("Py4JJavaError", STAGE.format("java.io.IOException: No space left on device"), base=JAVA),
            ErrorSource.SPARK,
        ),
        (
            error("Py4JJavaError", WRITING.format("java.io.IOException: No space left on device"), base=JAVA),
            ErrorSource.SPARK,
        ),
        (error("Py4JJavaError", STAGE.format("ExecutorLostFailure (executor 1 exited)"), base=JAVA), ErrorSource.SPARK),
        (error("Py4JJavaError", ": java.lang.OutOfMemoryError: Java heap space", base=JAVA), ErrorSource.SPARK),
        (
            error("Py4JJavaError", "[SPARK_JOB_CANCELLED] Job 63 cancelled SQLSTATE: XXKDA", base=JAVA),
            ErrorSource.SPARK,
        ),
        (
            error("Py4JJavaError", ": org.apache.spark.SparkException: Job 5 cancelled because", base=JAVA),
            ErrorSource.SPARK,
        ),
        (error("Py4JJavaError", "[FAILED_READ_FILE.NO_HINT] SQLSTATE: KD001", base=JAVA), ErrorSource.SPARK),
        (error("SparkException", "[OPERATION_CANCELED] SQLSTATE: HY008", "HY008"), ErrorSource.SPARK),
        (error("PythonException", WORKER.format("requests.exceptions.ConnectionError: refused")), ErrorSource.SPARK),
        (
            error("PythonException", WORKER.format("ModuleNotFoundError: No module named 'google'")),
            ErrorSource.STATEMENT,
        ),
        (
            error("Py4JJavaError", STAGE.format(WORKER.format("ModuleNotFoundError: x")), base=JAVA),
            ErrorSource.STATEMENT,
        ),
        (
            error("PythonException", WORKER.format("ImportError: cannot import name 'x'"), state="38000"),
            ErrorSource.STATEMENT,
        ),
        (error("PythonException", WORKER.format("OSError: [Errno 28] No space left on device")), ErrorSource.SPARK),
        (error("Py4JNetworkError", "Answer from Java side is empty", base=JAVA), ErrorSource.SPARK),
        (ConnectionRefusedError(111, "Connection refused"), ErrorSource.SPARK),
        (error("IllegalArgumentException", "java.net.UnknownHostException: namenode"), ErrorSource.SPARK),
        (error("IllegalArgumentException", "spark.x must be a number"), ErrorSource.STATEMENT),
        (ConnectError("no broker could be reached"), ErrorSource.SPARK),
        (SparkGoneError("the JVM has died", is_ours=False), ErrorSource.SPARK),
        (
            error("Py4JJavaError", STAGE.format("Python worker exited unexpectedly (crashed)"), base=JAVA),
            ErrorSource.UNKNOWN,
        ),
        (error("SparkException", "Job aborted due to stage failure: X"), ErrorSource.UNKNOWN),
        (error("Py4JJavaError", WRITING.format(MKDIRS.format("ü" * 126)), base=JAVA), ErrorSource.STATEMENT),
        (error("SparkException", STAGE.format(MKDIRS.format("x" * 251)), "XXKST"), ErrorSource.STATEMENT),
        (error("Py4JJavaError", WRITING.format(MKDIRS.format("x" * 250)), base=JAVA), ErrorSource.SPARK),
        (error("Py4JJavaError", WRITING.format(UNMAPPABLE), base=JAVA), ErrorSource.STATEMENT),
        (error("SparkRuntimeException", "[USER_RAISED_EXCEPTION] File name too long", "P0001"), ErrorSource.RECORD),
        (RuntimeError("who knows"), ErrorSource.UNKNOWN),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorSource) else f"{type(value).__name__} {value}"[:60],
)
def test_error_source_is_recognized(raised: Exception, source: ErrorSource) -> None:
    assert source_of(raised) is source


@pytest.mark.parametrize("version", [S3A, S3A_3_3], ids=["Hadoop 3.4", "Hadoop 3.3"])
@pytest.mark.parametrize("answer", [SLOW_DOWN, DENIED, EXPIRED], ids=["SlowDown", "AccessDenied", "ExpiredToken"])
@pytest.mark.parametrize("where", ["driver", "task", "write"])
def test_object_store_error_may_pass_and_blames_no_record(version: str, answer: dict[str, object], where: str) -> None:
    message = version.format(**answer)
    text = {
        "driver": f"An error occurred while calling o86.save.\n: {message}\n\tat org.apache.hadoop.fs.s3a.S3AUtils.x\n",
        "task": STAGE.format(message),
        "write": WRITING.format(message),
    }[where]
    raised = error("Py4JJavaError", text, base=JAVA)
    assert passes(raised)
    assert source_of(raised) is ErrorSource.SPARK


@pytest.mark.parametrize(
    ("raised", "may_pass"),
    [
        (error("Py4JJavaError", MALFORMED, base=JAVA), False),
        (error("AnalysisException", "[UNRESOLVED_COLUMN]", "42703"), False),
        (error("PythonException", WORKER.format("KeyError: 'software.amazon.awssdk.S3Exception'")), False),
        (RuntimeError("who knows"), True),
        (ConnectError("no broker could be reached"), True),
        (LandingError("transform must return a DataFrame, not None"), False),
    ],
    ids=["record", "statement", "record that quotes a store's error", "unknown", "network", "error of the sink"],
)
def test_passing_error_is_recognized(raised: Exception, may_pass: bool) -> None:
    assert passes(raised) is may_pass


def test_wrapped_error_has_the_source_of_its_cause() -> None:
    wrapped = LandingError("transform failed")
    wrapped.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert source_of(wrapped) is ErrorSource.SPARK
    wrapped.__cause__ = error("AnalysisException", state="42703")
    assert source_of(wrapped) is ErrorSource.STATEMENT


def test_error_text_lost_with_the_jvm_is_blamed_on_spark() -> None:
    class Py4JJavaError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

        def getSqlState(self) -> str:
            raise ConnectionRefusedError

    assert source_of(Py4JJavaError()) is ErrorSource.SPARK


def test_python_worker_error_names_the_exception_raised_there() -> None:
    raised = error("PythonException", WORKER.format("ValueError: could not convert string to float: 'x'"))
    assert cause_of(raised) == "PythonException: ValueError: could not convert string to float: 'x'"


def test_nested_python_worker_error_names_the_outer_one() -> None:
    during = (
        "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in b\nTypeError: no'
    )
    assert cause_of(error("PythonException", WORKER.format(during))) == "PythonException: TypeError: no"


NO_METHOD = (
    "An error occurred while calling o55.save.\n: java.lang.NoSuchMethodError: 'void org.apache.A.b()'\n\tat x.Y"
)


@pytest.mark.parametrize(
    "raised",
    [
        error("Py4JJavaError", NO_METHOD, base=JAVA),
        error("Py4JJavaError", ": x.Y\nCaused by: java.lang.ClassNotFoundException: a.B", base=JAVA),
        error("Py4JJavaError", ": java.lang.NoClassDefFoundError: org/apache/A", base=JAVA),
        error("SparkConnectGrpcException", "(java.lang.AbstractMethodError) Receiver class a.B"),
        LandingError("link 1: it is no record's fault: Py4JJavaError: java.lang.NoSuchMethodError: a"),
    ],
)
def test_linkage_error_is_permanent_and_names_the_jars(raised: Exception) -> None:
    fault = jars_error(raised)
    assert fault is not None
    assert fault.permanent
    assert not passes(fault)
    assert "spark.jars" in str(fault)


@pytest.mark.parametrize(
    "raised",
    [
        error("NumberFormatException", f"[CAST_INVALID_INPUT] The value '{NO_METHOD}'", "22018", PySparkException),
        error("PythonException", WORKER.format("ValueError: Caused by: java.lang.NoSuchMethodError: of a log line")),
        error("Py4JJavaError", STAGE.format("java.io.IOException: No space left on device"), base=JAVA),
        error("Py4JJavaError", ": java.lang.NoClassDefFoundError: Could not initialize class a.Snappy", base=JAVA),
        error("SparkConnectGrpcException", "(java.lang.NoClassDefFoundError) Could not initialize class a.Snappy"),
        HandlerError("Spark has no Delta Lake: java.lang.ClassNotFoundException"),
        ValueError("java.util.NoSuchElementException"),
    ],
)
def test_other_error_is_no_linkage_error(raised: Exception) -> None:
    """Records may contain the stacks of logs, and a native library may not fit on a full disk."""
    assert jars_error(raised) is None


BROKEN = "java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy"


@pytest.mark.parametrize(
    ("raised", "name"),
    [
        (error("Py4JJavaError", f": {BROKEN}", base=JAVA), "org.xerial.snappy.Snappy"),
        (error("Py4JJavaError", STAGE.format(BROKEN), base=JAVA), "org.xerial.snappy.Snappy"),
        (error("SparkConnectGrpcException", "(java.lang.NoClassDefFoundError) Could not initialize class a.B"), "a.B"),
        (error("PythonException", WORKER.format(f"ValueError: a line of a log: {BROKEN}")), None),
        (error("NumberFormatException", f"[CAST_INVALID_INPUT] The value '{BROKEN}'", "22018", PySparkException), None),
        (error("Py4JJavaError", ": java.lang.OutOfMemoryError", base=JAVA), None),
    ],
)
def test_fault_64_unusable_class_is_found(raised: Exception, name: str | None) -> None:
    assert broken_class(raised) == name
