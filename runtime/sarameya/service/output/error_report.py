"""Errors for people: one line each on stderr, and the exit code.

| exit code | meaning |
|---|---|
| 0 | ended as requested by SIGINT, SIGTERM or the supervisor: everything drained, committed and left |
| 1 | failed; the same may succeed later, by itself (so a supervisor may restart it) |
| 2 | a person must change something first: arguments, the app file, credentials, a permission, the table, an offset |
| 128 + n | signal n ended it at once (129: SIGHUP, 130: SIGINT, 143: SIGTERM): nothing was drained |

`run`, `land`, `broker` and `dashboard` end in order at the first signal, and at once at the second. Any other command
ends at once at the first.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from enum import IntEnum
from typing import TypeGuard

from sarameya.errors import (
    ClaimError,
    ConnectError,
    PropertiesError,
    SarameyaError,
)
from sarameya.secret import masked_text
from sarameya.service.app.app_file import AppFileError
from sarameya.service.output.log_format import logs_json

logger = logging.getLogger("sarameya")


class ExitCode(IntEnum):
    """Exit codes; the module's table has their meaning."""

    OK = 0
    FAILURE = 1
    CONFIGURATION = 2

    @staticmethod
    def on_signal(signum: int) -> int:
        """Return the exit code of a process that a signal ended at once."""
        return 128 + signum


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in an exception group, at any depth; the error itself if it is no group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def is_permanent(error: BaseException) -> bool:
    """Return whether a person must change something first: one of the errors has a permanent class."""
    return any(isinstance(leaf, SarameyaError) and leaf.permanent for leaf in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the leaves, with the causes of failed claims in their place."""
    for leaf in leaves(error):
        yield from _causes(leaf.cause) if isinstance(leaf, ClaimError) else (leaf,)


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    return ExitCode.CONFIGURATION if is_permanent(error) else ExitCode.FAILURE


def error_lines(error: BaseException) -> list[str]:
    """Return one line for each error, in order and without repetition. Text that looks secret is masked.

    An error of sarameya's own may have several lines.
    """
    return list(dict.fromkeys(masked_text(line) for leaf in leaves(error) for line in _lines(leaf)))


def _lines(error: BaseException) -> list[str]:
    if isinstance(error, AppFileError | PropertiesError):
        return list(error.problems)
    if isinstance(error, ConnectError):
        return [f"{error}; start the broker, or correct bootstrap_servers"]
    if isinstance(error, ClaimError):
        return [_first_line(error) or type(error).__name__]
    if isinstance(error, SarameyaError):
        return [str(error)]
    if _is_about_a_file(error):
        return [f"{error.filename}: {error.strerror}"]
    text = _first_line(error)
    return [f"{type(error).__name__}: {text}" if text else type(error).__name__]


def _is_about_a_file(error: BaseException) -> TypeGuard[OSError]:
    """Return whether the operating system refused a file, which the error names."""
    return isinstance(error, OSError) and error.filename is not None and bool(error.strerror)


def _first_line(error: BaseException) -> str:
    """Return the first line that is not empty.

    Errors of other libraries may have stacks of other languages in their text (py4j's have).
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  pyspark's errors get their text from a JVM, which may have exited
        return ""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def report(error: BaseException, *, debug: bool) -> ExitCode:
    """Print the error to stderr, or log it if the log is JSON. Return the exit code.

    Args:
        error: The error.
        debug: Print the traceback as well.
    """
    if logs_json():
        for line in error_lines(error):
            logger.error("%s", line)
        if debug:
            logger.error("the traceback", exc_info=error)
        return exit_code(error)
    if debug:
        print(masked_text("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    for line in error_lines(error):
        print(f"sarameya: error: {line}", file=sys.stderr)
    is_plain = all(isinstance(leaf, SarameyaError) or _is_about_a_file(leaf) for leaf in leaves(error))
    if not debug and not is_plain:
        print("sarameya: add --debug to see the traceback", file=sys.stderr)
    sys.stderr.flush()
    return exit_code(error)
