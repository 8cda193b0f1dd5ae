"""Reasons why a JVM has not started: a mistake that a person must correct, or a condition that passes by itself.

Most conditions pass: the kernel's out-of-memory killer, a full disk, no free port. Known mistakes are: the JVM refuses
an option, Spark refuses a property's value, a class or jar named by a property does not exist.
"""

from __future__ import annotations

import re
import signal

from sarameya import HandlerError
from sarameya_handlers.spark.error_sources import passes_by_text
from sarameya_handlers.spark.errors import SparkStartError, is_linkage

_REFUSED = re.compile(
    r"\b(Spark)?(IllegalArgument|NumberFormat)Exception\b"
    r"|Unrecognized (VM )?option|Invalid (initial|maximum) heap size|Invalid thread stack size|Conflicting collector"
    r"|Could not find or load main class"
    # Errors of spark-submit and SparkContext about `master` have no class of their own.
    r"|SparkException: (Master must |Could not parse Master URL)"
    # An unresolved dependency is not among them: Ivy reports the same if its repository cannot be reached.
    r"|File file:\S+ does not exist|Failed to load class|Invalid or corrupt jarfile|JAVA_HOME is (not|incorrectly) set"
)
_BY_SIGNAL = 128
"""A shell adds this to the number of the signal that ended its child."""


def exit_error(code: int, errors: str) -> HandlerError | SparkStartError:
    """Return the error for a JVM that ended with this exit code, and printed these errors, before it responded."""
    number = -code if code < 0 else code - _BY_SIGNAL
    if number in signal.valid_signals():
        memory = "; out of memory?" if number == 9 else ""
        return SparkStartError(f"Spark's JVM was killed by signal {number} while it started{memory}")
    return start_error(f"Spark's JVM does not start: {errors}", errors)


def start_error(summary: str, text: str) -> HandlerError | SparkStartError:
    """Return an error with the text `summary` for a failed start. Its type depends on Java's whole error `text`."""
    if passes_by_text(text) or not (_REFUSED.search(text) or is_linkage(text)):
        return SparkStartError(summary)
    return HandlerError(summary)
