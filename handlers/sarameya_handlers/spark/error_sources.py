"""Source of an error from Spark: a record, the statement, or Spark itself.

Determined by the error's SQLSTATE if it has one (all error classes of Spark 4 do), else by its class, else by its text.
Works for classic Spark and Spark Connect. The result is a first guess: a bisection finds the records that fail alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto

from sarameya import SarameyaError
from sarameya_handlers.spark.errors import (
    LandingError,
    SparkGoneError,
    SparkJarsError,
    cause_of,
    is_linkage,
    python_cause,
    text_of,
)

NAME_BYTES = 255
"""Maximum length of a file name in bytes, on common file systems."""


class ErrorSource(Enum):
    """Source of an error: the place of its cause."""

    RECORD = auto()
    """A record's content: it cannot be decoded, computed with, or stored."""
    STATEMENT = auto()
    """The statement: it fails for every record, and without records."""
    SPARK = auto()
    """Spark, its workers, its disk or store, or a cancellation. A retry may succeed later."""
    UNKNOWN = auto()
    """Any of these."""


_STATES: Mapping[str, ErrorSource] = {
    "22": ErrorSource.RECORD,  # data exceptions: casts, overflows, malformed records
    "23": ErrorSource.RECORD,  # constraints
    "38": ErrorSource.RECORD,  # functions of the user's own
    "39": ErrorSource.RECORD,
    "42": ErrorSource.STATEMENT,
    "42000": ErrorSource.RECORD,  # NOT_NULL_ASSERT_VIOLATION
    "54000": ErrorSource.RECORD,  # a collection, or a string, that is too large
    "54006": ErrorSource.RECORD,
    "P0001": ErrorSource.RECORD,  # raise_error, assert_true
    "07": ErrorSource.STATEMENT,
    "0A": ErrorSource.STATEMENT,
    "08": ErrorSource.SPARK,
    "40": ErrorSource.SPARK,
    "53": ErrorSource.SPARK,
    "57": ErrorSource.SPARK,
    "58": ErrorSource.SPARK,
    "82": ErrorSource.SPARK,
    "HY": ErrorSource.SPARK,
    "KD": ErrorSource.SPARK,
    "XX": ErrorSource.SPARK,
}
"""Sources by SQLSTATE, or by its class (the first two characters)."""

_CLASSES: Mapping[str, ErrorSource] = {
    "PythonException": ErrorSource.RECORD,
    "ArithmeticException": ErrorSource.RECORD,
    "ArrayIndexOutOfBoundsException": ErrorSource.RECORD,
    "DateTimeException": ErrorSource.RECORD,
    "NumberFormatException": ErrorSource.RECORD,
    "SparkRuntimeException": ErrorSource.RECORD,
    "SparkUpgradeException": ErrorSource.RECORD,
    "AnalysisException": ErrorSource.STATEMENT,
    "ParseException": ErrorSource.STATEMENT,
    "IllegalArgumentException": ErrorSource.STATEMENT,
    "Py4JJavaError": ErrorSource.UNKNOWN,
    "Py4JError": ErrorSource.SPARK,
    "RpcError": ErrorSource.SPARK,
    "RetriesExceeded": ErrorSource.SPARK,
    "OSError": ErrorSource.SPARK,
    "MemoryError": ErrorSource.SPARK,
    # Python's own errors, raised by the code that makes the DataFrame.
    "TypeError": ErrorSource.STATEMENT,
    "ValueError": ErrorSource.STATEMENT,
    "LookupError": ErrorSource.STATEMENT,
    "AttributeError": ErrorSource.STATEMENT,
    "NameError": ErrorSource.STATEMENT,
    "ImportError": ErrorSource.STATEMENT,
    "AssertionError": ErrorSource.STATEMENT,
    "NotImplementedError": ErrorSource.STATEMENT,
}
"""Sources by class name: the first found in the order of inheritance."""

_NETWORK = r"java\.net\.(UnknownHost|SocketTimeout|Connect|NoRouteToHost)Exception"
_SPARK_ERROR = re.compile(
    r"No space left on device|Disk quota exceeded|Too many open files|Connection refused|Connection reset"
    rf"|{_NETWORK}|java\.lang\.OutOfMemoryError|ExecutorLostFailure|ExecutorDeadException|FetchFailed"
    r"|SparkContext was shut ?down|stopped SparkContext|SPARK_JOB_CANCELLED|OPERATION_CANCELED"
    r"|(Job|Stage) \d+ (was )?cancelled"
    # Responses of any object store: too many requests, an expired token, keys being changed.
    r"|(com\.amazonaws|software\.amazon\.awssdk)\.[\w.]+Exception"
)
_ROW_ERROR = re.compile(
    r"\[DELTA_(VIOLATE_CONSTRAINT_WITH_VALUES|NOT_NULL_CONSTRAINT_VIOLATED|EXCEED_CHAR_VARCHAR_LIMIT)\]"
)
"""Violations reported by Delta's writer. Their text has no SQLSTATE, except that of the surrounding write failure."""
_NAME_ERROR = re.compile(
    r"InvalidPathException: |File name too long|Mkdirs failed to create (?P<path>.+?) \(exists=false", re.S
)
"""Names that a file system, or a JVM without UTF-8, refuses."""
_WORKER_ERROR = re.compile(
    r"(\w+\.)*(Connection\w*Error|Timeout(Error)?|BrokenPipeError|OSError|MemoryError|gaierror)\b"
)
"""Exceptions of a Python function that are not caused by a record."""
_INSTALLATION_ERROR = re.compile(r"(\w+\.)*(ModuleNotFoundError|ImportError|PackageNotFoundError)\b")
"""Exceptions of a Python function because a package is not installed."""
_BROKEN_CLASS = re.compile(r"java\.lang\.NoClassDefFoundError(?:: |\) )Could not initialize class ([\w.$]+)")
_STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")


def passes(error: BaseException) -> bool:
    """Return whether a retry may succeed later without a change: a full disk, a store that refuses, a dead Spark."""
    if isinstance(error, LandingError):
        return error.passes
    if isinstance(error, SarameyaError):
        return error.retriable
    return source_of(error) in (ErrorSource.SPARK, ErrorSource.UNKNOWN)


def passes_by_text(text: str) -> bool:
    """Return whether a Java error's text is about a disk, a connection or memory that is exhausted now."""
    return _SPARK_ERROR.search(text) is not None


def jars_error(error: Exception) -> SparkJarsError | None:
    """Return the error to raise instead, if this error is due to missing or incompatible jars; else None.

    None also for errors caused by a record: their text may quote the record, and a log line may contain a Java stack.
    """
    if isinstance(error, SarameyaError) and error.permanent:
        return None
    if source_of(error) is not ErrorSource.STATEMENT or not is_linkage(text_of(error) or ""):
        return None
    return SparkJarsError(
        f"{cause_of(error)}: one of Spark's jars is missing, or is made for another version of Spark or Scala; correct "
        "spark.jars.packages or spark.jars in spark.conf (docs/tables.md lists versions that fit together)"
    )


def broken_class(error: BaseException) -> str | None:
    """Return the class that this JVM can never use again because its initialization failed once; None if there is none.

    For example, snappy's native library found no room in a full temporary directory. Only another JVM helps. None also
    for errors caused by a record: their text may quote the record.
    """
    found = None
    for raised in (error, error.__cause__):
        if raised is not None and source_of(raised) in (ErrorSource.SPARK, ErrorSource.UNKNOWN):
            found = found or _BROKEN_CLASS.search(text_of(raised) or "")
    return None if found is None else found[1]


def source_of(error: BaseException) -> ErrorSource:
    """Return the probable source of an error."""
    if isinstance(error, SparkGoneError):
        return ErrorSource.SPARK
    if isinstance(error, LandingError):
        return _source_of_landing_error(error)
    if isinstance(error, SarameyaError):
        return ErrorSource.SPARK if error.retriable else ErrorSource.STATEMENT
    own = _by_state(_own_state(error))
    is_python = any(kind.__name__ == "PythonException" for kind in type(error).__mro__)
    if own in (ErrorSource.RECORD, ErrorSource.STATEMENT) and not is_python:
        return own
    by_class = next((_CLASSES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CLASSES), None)
    if by_class is ErrorSource.SPARK:
        return by_class
    text = text_of(error)
    if text is None:
        return ErrorSource.SPARK  # the JVM that has its text is dead
    if by_class is ErrorSource.STATEMENT:
        # Hadoop reports a host that cannot be resolved now as an IllegalArgumentException.
        return ErrorSource.SPARK if re.search(_NETWORK, text) else by_class
    if is_python:
        return _by_python(python_cause(text) or "")
    return ErrorSource.RECORD if by_class is ErrorSource.RECORD else _by_text(text, own)


def _by_python(cause: str) -> ErrorSource:
    """Return the source of an exception that a Python function raised in Spark's workers."""
    if _INSTALLATION_ERROR.match(cause):
        return ErrorSource.STATEMENT
    return ErrorSource.SPARK if _WORKER_ERROR.match(cause) else ErrorSource.RECORD


def _source_of_landing_error(error: LandingError) -> ErrorSource:
    """Return the source of one of our own errors: Spark if its cause has that source, else the statement."""
    cause = error.__cause__
    if error.passes or (cause is not None and source_of(cause) is ErrorSource.SPARK):
        return ErrorSource.SPARK
    return ErrorSource.STATEMENT


def _by_text(text: str, own: ErrorSource | None) -> ErrorSource:
    """Return the source by the text of a chain of errors: Spark wraps a record's error in its own failure to write."""
    if _INSTALLATION_ERROR.match(python_cause(text) or ""):
        return ErrorSource.STATEMENT
    if _is_name_refused(text):
        return ErrorSource.STATEMENT
    states = {_by_state(state) for state in _STATE.findall(text)} | {own}
    if ErrorSource.RECORD in states or _ROW_ERROR.search(text):
        return ErrorSource.RECORD
    if _SPARK_ERROR.search(text):
        return ErrorSource.SPARK
    if is_linkage(text):
        return ErrorSource.STATEMENT
    return next((found for found in (ErrorSource.STATEMENT, ErrorSource.SPARK) if found in states), ErrorSource.UNKNOWN)


def _is_name_refused(text: str) -> bool:
    """Return whether a file system refuses a file's name. A failed "mkdirs" counts only if a name is too long."""
    found = _NAME_ERROR.search(text)
    if found is None or found["path"] is None:
        return found is not None
    return any(len(name.encode()) > NAME_BYTES for name in found["path"].split("/"))


def _by_state(state: str | None) -> ErrorSource | None:
    return None if state is None else _STATES.get(state, _STATES.get(state[:2]))


def _own_state(error: BaseException) -> str | None:
    """Return the SQLSTATE of the error itself, if its class has one."""
    read_state = getattr(error, "getSqlState", None)
    if read_state is not None:
        with suppress(Exception):  # its JVM may be dead
            state = read_state()
            return state if isinstance(state, str) and len(state) == 5 else None
    return None
