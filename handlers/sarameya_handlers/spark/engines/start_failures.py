"""Why a JVM has not started: a mistake that a person must correct, or what passes by itself.

Passing is the rule: the kernel's out-of-memory killer, a full disk, no free port. Permanent is what is known to be: the
JVM refuses an option, Spark refuses a property's value, or a class that a property names is not there.
"""

from __future__ import annotations

import re

from sarameya import HandlerError
from sarameya_handlers.spark.error_sources import passes_by_text
from sarameya_handlers.spark.errors import SparkStartError, is_linkage

_REFUSED = re.compile(
    r"\b(Spark)?(IllegalArgument|NumberFormat)Exception\b"
    r"|Unrecognized (VM )?option|Invalid (initial|maximum) heap size|Invalid thread stack size|Conflicting collector"
    r"|Could not find or load main class"
    # Of no class of its own: what spark-submit, and SparkContext, say of `master`.
    r"|SparkException: (Master must |Could not parse Master URL)"
)
_BY_SIGNAL = 128
"""A shell adds the number of the signal that has ended what it waited for."""


def of_exit(code: int, complaints: str) -> HandlerError | SparkStartError:
    """What to raise for a JVM that has ended with this exit code before it answered, and what it said."""
    if code < 0 or code > _BY_SIGNAL:
        number = -code if code < 0 else code - _BY_SIGNAL
        memory = "; out of memory?" if number == 9 else ""
        return SparkStartError(f"Spark's JVM was killed by signal {number} while it started{memory}")
    return of_text(f"Spark's JVM does not start: {complaints}", complaints)


def of_text(told: str, text: str) -> HandlerError | SparkStartError:
    """What to raise for a start that has failed with this `text` of Java's, all of it, of which this is `told`."""
    if passes_by_text(text) or not (_REFUSED.search(text) or is_linkage(text)):
        return SparkStartError(told)
    return HandlerError(told)
