"""Errors of the Spark sink, and how to describe an error of Spark in one line."""

from __future__ import annotations

import re

from sarameya import HandlerError, SarameyaError
from sarameya_handlers.landing.files import is_refusal


class LandingError(SarameyaError):
    """Landing failed. Nothing is marked, and the partition's next owner lands the records again."""

    retriable = True
    passes = False
    """True if the same may succeed later by itself. Then it is retried in place, without ending the session."""


class SparkGoneError(LandingError):
    """Spark itself is gone, independent of the request: its driver has died, was stopped, or does not respond.

    Work that starts later gets another Spark, unless Spark is not ours to start.

    Args:
        text: Description.
        begun: True if the work had begun, so that its effect is unknown.
        is_ours: True if Spark is ours to start.
    """

    def __init__(self, text: str, *, begun: bool = True, is_ours: bool = True) -> None:
        super().__init__(text)
        self.begun = begun
        self.retriable = self.passes = is_ours


class BrokenClassError(LandingError):
    """A Spark that is not ours to start can never use one of its classes again. Landing goes on after its restart."""

    passes = True


class SparkStartError(LandingError):
    """Spark has not started, but may next time: its JVM was killed, a disk is full, a file cannot be created."""


class SparkJarsError(HandlerError):
    """A Java class, or a member of one, is missing: Spark's jars are incomplete or incompatible."""


_LINKAGE = re.compile(
    r"(?:^|[\s(])java\.(?:lang\.(?:NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChangeError"
    r"|UnsupportedClassVersionError|ClassNotFoundException"
    # "Could not initialize class" is raised for a class whose native library found no room in /tmp.
    r"|NoClassDefFoundError(?!(?:: |\) )Could not initialize class))"
    r"|util\.ServiceConfigurationError)\b"
)


def is_linkage(text: str) -> bool:
    """Return whether Java reports a missing class or member: jars that are missing or incompatible."""
    return _LINKAGE.search(text) is not None


def directory_error(problem: str, error: OSError, remedy: str) -> HandlerError | LandingError:
    """Return the error for a directory that cannot be used.

    Args:
        problem: Description of the problem.
        error: The cause.
        remedy: What to choose instead, if the cause does not pass by itself.
    """
    named = f" ({error.filename})" if error.filename else ""
    text = f"{problem}: {error.strerror or error}{named}"
    if is_refusal(error):
        return HandlerError(f"{text}; {remedy}")
    return LandingError(f"{text}; check its disk, and start again")


def text_of(error: BaseException) -> str | None:
    """Return an error's text; None if it is a Java error whose JVM, which has the text, is gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  whatever py4j raises for a JVM that is gone
        return None


def cause_of(error: BaseException) -> str:
    """Describe an error of Spark in one line. Its own text is often a hundred lines of Java stack."""
    if isinstance(error, LandingError):
        return str(error)
    text = text_of(error)
    if text is None:
        return f"{type(error).__name__} (its text was lost with Spark's JVM)"
    if raised := python_cause(text):
        return f"{type(error).__name__}: {raised}"
    lines = [line.strip() for line in text.splitlines()]
    messages = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    causes = [line.removeprefix("Caused by: ") for line in messages if line.startswith("Caused by: ")]
    shown = [line.removeprefix(": ") for line in messages[:1]] + causes[-1:]
    return ": ".join([type(error).__name__, "; ".join(shown) or text])


def python_cause(text: str) -> str | None:
    """Return the exception of a Python worker, `ValueError: ...`, if an error's text contains one."""
    _, marker, traceback = text.partition("Traceback (most recent call last):\n")
    if not marker:
        return None
    # The line after the last frame, all of which are indented. For nested errors, this is the last error, too.
    frames = [match.end() for match in re.finditer(r'^ +File ".*$', traceback, re.MULTILINE)]
    behind = traceback[frames[-1] if frames else 0 :].splitlines()
    return next((line.strip() for line in behind if line and not line[0].isspace()), None)
