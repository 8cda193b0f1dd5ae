"""Errors of the Spark sink, and a function that describes an error of Spark in one line."""

from __future__ import annotations

import re

from sarameya import HandlerError, SarameyaError
from sarameya_handlers.landing.files import is_refusal


class LandingError(SarameyaError):
    """Landing failed. Nothing is marked, and the partition's next owner lands the records again."""

    retriable = True
    passes = False
    """True if a retry may succeed later without a change. The sink then retries, and the session does not end."""


class SparkGoneError(LandingError):
    """Spark is dead, whatever the request was: its driver has died, was stopped, or does not respond.

    Work that starts later gets another Spark, if the sink starts Spark itself.

    Args:
        text: Description.
        begun: True if the work had begun, so that its effect is unknown.
        is_ours: True if the sink starts Spark itself.
    """

    def __init__(self, text: str, *, begun: bool = True, is_ours: bool = True) -> None:
        super().__init__(text)
        self.begun = begun
        self.retriable = self.passes = is_ours


class BrokenClassError(LandingError):
    """A Spark that the sink cannot restart can never use one of its classes again. Landing needs its restart."""

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


def directory_error(problem: str, error: OSError, remedy: str, check: str = "disk") -> HandlerError | LandingError:
    """Return the error for a directory that cannot be used.

    Args:
        problem: Description of the problem.
        error: The cause.
        remedy: The remedy, if the cause does not pass by itself.
        check: What to check, if it may pass.
    """
    file = f" ({error.filename})" if error.filename else ""
    text = f"{problem}: {error.strerror or error}{file}"
    if is_refusal(error):
        return HandlerError(f"{text}; {remedy}")
    return LandingError(f"{text}; check its {check}, and start again")


def text_of(error: BaseException) -> str | None:
    """Return an error's text; None for a Java error whose text was lost with its JVM."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  py4j raises several types for a dead JVM
        return None


def cause_of(error: BaseException) -> str:
    """Describe an error of Spark in one line. Its full text often has a hundred lines of Java stack."""
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
    # The first line after the last frame that is not indented. For nested errors, this is the last error.
    frames = [match.end() for match in re.finditer(r'^ +File ".*$', traceback, re.MULTILINE)]
    rest = traceback[frames[-1] if frames else 0 :].splitlines()
    return next((line.strip() for line in rest if line and not line[0].isspace()), None)
