"""What goes wrong with Spark, and how to say it in a line."""

from __future__ import annotations

import re

from sarameya import HandlerError, SarameyaError
from sarameya_handlers.landing.files import is_refusal


class LandingError(SarameyaError):
    """A landing failed: nothing of it is marked, and the next owner of the partition lands it again."""

    retriable = True
    passes = False
    """Whether the same may succeed by itself, so that it is tried again in place, without ending the session."""


class SparkGoneError(LandingError):
    """Spark itself is gone, whatever was asked of it: its driver has died or was stopped, or does not answer.

    Work that is begun after this meets another Spark, except where Spark is not ours to start. `begun`: whether the
    work had begun, so that nobody knows what it has done.
    """

    def __init__(self, text: str, *, begun: bool = True, is_ours: bool = True) -> None:
        super().__init__(text)
        self.begun = begun
        self.retriable = self.passes = is_ours


class SparkStartError(LandingError):
    """Spark has not started, and may another time: its JVM was killed, a disk is full, a file cannot be made."""


class SparkJarsError(HandlerError):
    """A class of Java's, or something in one, is missing: Spark's jars are not all there, or do not fit together."""


_LINKAGE = re.compile(
    r"(?:^|[\s(])java\.(?:lang\.(?:NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChangeError"
    # "Could not initialize class" is how a class fails whose native library found no room in /tmp.
    r"|UnsupportedClassVersionError|ClassNotFoundException|NoClassDefFoundError(?!: Could not initialize class))"
    r"|util\.ServiceConfigurationError)\b"
)


def is_linkage(text: str) -> bool:
    """Return whether Java says that a class, or something in it, is missing: jars that are not there, or do not fit."""
    return _LINKAGE.search(text) is not None


def directory_error(told: str, error: OSError, remedy: str) -> HandlerError | LandingError:
    """What to raise where a directory, of which this is `told`, cannot be used: `remedy` says what else to choose, if
    what is said does not pass."""
    named = f" ({error.filename})" if error.filename else ""
    told = f"{told}: {error.strerror or error}{named}"
    if is_refusal(error):
        return HandlerError(f"{told}; {remedy}")
    return LandingError(f"{told}; see to its disk, and start again")


def text_of(error: BaseException) -> str | None:
    """All that an error says; None where an error of Java's would have to ask a JVM for it that is gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  whatever py4j makes of a JVM that is gone
        return None


def cause_of(error: BaseException) -> str:
    """One line about an error of Spark, whose own text is often a hundred lines of Java stack."""
    if isinstance(error, LandingError):
        return str(error)
    text = text_of(error)
    if text is None:
        return f"{type(error).__name__} (its text was lost with Spark's JVM)"
    if raised := python_cause(text):
        return f"{type(error).__name__}: {raised}"
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    causes = [line.removeprefix("Caused by: ") for line in said if line.startswith("Caused by: ")]
    told = [line.removeprefix(": ") for line in said[:1]] + causes[-1:]
    return ": ".join([type(error).__name__, "; ".join(told) or text])


def python_cause(text: str) -> str | None:
    """What a Python worker has raised, `ValueError: ...`, if that is what an error's text tells."""
    _, begun, traceback = text.partition("Traceback (most recent call last):\n")
    if not begun:
        return None
    # Behind the last of its frames, which are indented; of an error within an error it is the last one, too.
    frames = [match.end() for match in re.finditer(r'^ +File ".*$', traceback, re.MULTILINE)]
    behind = traceback[frames[-1] if frames else 0 :].splitlines()
    return next((line.strip() for line in behind if line and not line[0].isspace()), None)
