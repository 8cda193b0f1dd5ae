"""Whose fault an error of Spark's is: a record's, what was asked for, or Spark's own.

Told by its SQLSTATE, where it has one (every error class of Spark 4 has), else by its class, else by what it says. The
same for classic Spark and Spark Connect. It is a first look: who bisects finds out by what fails alone.
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
from sarameya_handlers.spark.shaping.partitions import NAME_BYTES


class Blame(Enum):
    """Where to look for the cause."""

    RECORD = auto()
    """What a record holds: it cannot be decoded, computed with, or stored."""
    STATEMENT = auto()
    """What was asked for: it fails for every record, and for none."""
    SPARK = auto()
    """Spark, its workers, its disk or store; or it was cancelled. The same may succeed later."""
    UNKNOWN = auto()
    """Any of these."""


_STATES: Mapping[str, Blame] = {
    "22": Blame.RECORD,  # data exceptions: casts, overflows, malformed records
    "23": Blame.RECORD,  # constraints
    "38": Blame.RECORD,  # functions of the user's own
    "39": Blame.RECORD,
    "42": Blame.STATEMENT,
    "42000": Blame.RECORD,  # NOT_NULL_ASSERT_VIOLATION
    "54000": Blame.RECORD,  # a collection, or a string, that is too large
    "54006": Blame.RECORD,
    "P0001": Blame.RECORD,  # raise_error, assert_true
    "07": Blame.STATEMENT,
    "0A": Blame.STATEMENT,
    "08": Blame.SPARK,
    "40": Blame.SPARK,
    "53": Blame.SPARK,
    "57": Blame.SPARK,
    "58": Blame.SPARK,
    "82": Blame.SPARK,
    "HY": Blame.SPARK,
    "KD": Blame.SPARK,
    "XX": Blame.SPARK,
}
"""By SQLSTATE, or its class, which are the first two letters."""

_CLASSES: Mapping[str, Blame] = {
    "PythonException": Blame.RECORD,
    "ArithmeticException": Blame.RECORD,
    "ArrayIndexOutOfBoundsException": Blame.RECORD,
    "DateTimeException": Blame.RECORD,
    "NumberFormatException": Blame.RECORD,
    "SparkRuntimeException": Blame.RECORD,
    "SparkUpgradeException": Blame.RECORD,
    "AnalysisException": Blame.STATEMENT,
    "ParseException": Blame.STATEMENT,
    "IllegalArgumentException": Blame.STATEMENT,
    "Py4JJavaError": Blame.UNKNOWN,
    "Py4JError": Blame.SPARK,
    "RpcError": Blame.SPARK,
    "RetriesExceeded": Blame.SPARK,
    "OSError": Blame.SPARK,
    "MemoryError": Blame.SPARK,
    # Of Python's own, from whoever makes the DataFrame.
    "TypeError": Blame.STATEMENT,
    "ValueError": Blame.STATEMENT,
    "LookupError": Blame.STATEMENT,
    "AttributeError": Blame.STATEMENT,
    "NameError": Blame.STATEMENT,
    "ImportError": Blame.STATEMENT,
    "AssertionError": Blame.STATEMENT,
    "NotImplementedError": Blame.STATEMENT,
}
"""By class: the first that is found, from an error's own class on to its bases."""

_OF_SPARK = re.compile(
    r"No space left on device|Disk quota exceeded|Too many open files|Connection refused|Connection reset"
    r"|java\.lang\.OutOfMemoryError|ExecutorLostFailure|ExecutorDeadException|FetchFailed"
    r"|SparkContext was shut ?down|stopped SparkContext|SPARK_JOB_CANCELLED|OPERATION_CANCELED"
    r"|(Job|Stage) \d+ (was )?cancelled"
    # A store's answers, whichever: too many requests, a token that has expired, keys that are being changed.
    r"|(com\.amazonaws|software\.amazon\.awssdk)\.[\w.]+Exception"
)
_OF_A_ROW = re.compile(
    r"\[DELTA_(VIOLATE_CONSTRAINT_WITH_VALUES|NOT_NULL_CONSTRAINT_VIOLATED|EXCEED_CHAR_VARCHAR_LIMIT)\]"
)
"""What Delta's writer refuses: its text has no SQLSTATE, unless it is that of the failure to write around it."""
_OF_A_NAME = re.compile(
    r"InvalidPathException: |File name too long|Mkdirs failed to create (?P<path>.+?) \(exists=false", re.S
)
"""What a file system, or a JVM without UTF-8, does not take for a name."""
_OF_THE_WORKER = re.compile(
    r"(\w+\.)*(Connection\w*Error|Timeout(Error)?|BrokenPipeError|OSError|MemoryError|gaierror)\b"
)
"""What a function in Python raises for reasons that no record gives: names of exceptions."""
_OF_THE_INSTALLATION = re.compile(r"(\w+\.)*(ModuleNotFoundError|ImportError|PackageNotFoundError)\b")
"""What it raises wherever something is not installed, until somebody does that."""
_BROKEN_CLASS = re.compile(r"java\.lang\.NoClassDefFoundError: Could not initialize class ([\w.$]+)")
_STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")


def passes(error: BaseException) -> bool:
    """Whether the same may succeed later, by itself: a full disk, a store that refuses, a Spark that has died."""
    if isinstance(error, LandingError):
        return error.passes
    if isinstance(error, SarameyaError):
        return error.retriable
    return blame(error) in (Blame.SPARK, Blame.UNKNOWN)


def passes_by_text(text: str) -> bool:
    """Whether what Java says is of a disk, a connection or a memory that has no room now."""
    return _OF_SPARK.search(text) is not None


def jars_fault(error: Exception) -> SparkJarsError | None:
    """What to raise instead of an error that says that jars are missing or do not fit; None for any other error.

    Not for a record's fault, whose text may have what the record holds: a topic of log lines has many a stack.
    """
    if isinstance(error, SarameyaError) and error.permanent:
        return None
    if blame(error) is not Blame.STATEMENT or not is_linkage(text_of(error) or ""):
        return None
    return SparkJarsError(
        f"{cause_of(error)}: a jar of Spark's is missing, or is made for another version of Spark or Scala; correct "
        "spark.jars.packages or spark.jars in spark.conf (docs/tables.md has those that are known to fit)"
    )


def broken_class(error: BaseException) -> str | None:
    """Return the class that a JVM can never use any more, since its initialization has failed once; None without one.

    For example, snappy's native library found no room in a full temporary directory. Only another JVM helps. None also
    for a record's fault, whose text may have what the record holds.
    """
    found = None
    for one in (error, error.__cause__):
        if one is not None and blame(one) in (Blame.SPARK, Blame.UNKNOWN):
            found = found or _BROKEN_CLASS.search(text_of(one) or "")
    return None if found is None else found[1]


def blame(error: BaseException) -> Blame:
    """Whose fault it seems to be."""
    if isinstance(error, SparkGoneError):
        return Blame.SPARK
    if isinstance(error, LandingError):
        return _wrapped(error)
    if isinstance(error, SarameyaError):
        return Blame.SPARK if error.retriable else Blame.STATEMENT
    own = _by_state(_own_state(error))
    is_python = any(kind.__name__ == "PythonException" for kind in type(error).__mro__)
    if own in (Blame.RECORD, Blame.STATEMENT) and not is_python:
        return own
    by_class = next((_CLASSES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CLASSES), None)
    if by_class in (Blame.SPARK, Blame.STATEMENT):
        return by_class
    text = text_of(error)
    if text is None:
        return Blame.SPARK  # nobody is there to ask for it
    if is_python:
        return _by_python(python_cause(text) or "")
    return Blame.RECORD if by_class is Blame.RECORD else _by_text(text, own)


def _by_python(cause: str) -> Blame:
    """Of what a function in Python has raised where Spark's workers run."""
    if _OF_THE_INSTALLATION.match(cause):
        return Blame.STATEMENT
    return Blame.SPARK if _OF_THE_WORKER.match(cause) else Blame.RECORD


def _wrapped(error: LandingError) -> Blame:
    """Somebody has said it in words already: Spark's own troubles stay what they are."""
    cause = error.__cause__
    if error.passes or (cause is not None and blame(cause) is Blame.SPARK):
        return Blame.SPARK
    return Blame.STATEMENT


def _by_text(text: str, own: Blame | None) -> Blame:
    """Of a chain of errors, by all that is in it: Spark wraps what a record did in its own failure to write."""
    if _OF_THE_INSTALLATION.match(python_cause(text) or ""):
        return Blame.STATEMENT
    if _is_no_name(text):
        return Blame.STATEMENT
    states = {_by_state(state) for state in _STATE.findall(text)} | {own}
    if Blame.RECORD in states or _OF_A_ROW.search(text):
        return Blame.RECORD
    if _OF_SPARK.search(text):
        return Blame.SPARK
    if is_linkage(text):
        return Blame.STATEMENT
    return next((found for found in (Blame.STATEMENT, Blame.SPARK) if found in states), Blame.UNKNOWN)


def _is_no_name(text: str) -> bool:
    found = _OF_A_NAME.search(text)
    if found is None or found["path"] is None:
        return found is not None
    return any(len(name.encode()) > NAME_BYTES for name in found["path"].split("/"))


def _by_state(state: str | None) -> Blame | None:
    return None if state is None else _STATES.get(state, _STATES.get(state[:2]))


def _own_state(error: BaseException) -> str | None:
    """That of the error itself, where its class can tell."""
    ask = getattr(error, "getSqlState", None)
    if ask is not None:
        with suppress(Exception):  # its JVM may be gone
            state = ask()
            return state if isinstance(state, str) and len(state) == 5 else None
    return None
