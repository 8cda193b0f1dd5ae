"""What went wrong, told to a person: one line each on stderr, and the exit code.

| exit code | meaning |
|---|---|
| 0 | ended as asked: by SIGINT, SIGTERM or the supervisor, everything drained, committed and left |
| 1 | failed; the same may succeed later, by itself (so a supervisor may restart it) |
| 2 | a person must change something first: arguments, the app file, credentials, a permission, the table, an offset |
| 128 + n | signal n ended it at once (129: SIGHUP, 130: SIGINT, 143: SIGTERM): nothing was drained |

At once is by the second signal where the first asks for an orderly end (`run`, `land`, `broker`, `dashboard`), and by
the first in any other command.
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
from sarameya.service.app_file import AppFileError
from sarameya.service.log_lines import logs_json

logger = logging.getLogger("sarameya")


class ExitCode(IntEnum):
    """See the module's table."""

    OK = 0
    FAILURE = 1
    CONFIGURATION = 2

    @staticmethod
    def on_signal(signum: int) -> int:
        return 128 + signum


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in an exception group, however deep; the error itself where it is none."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def is_permanent(error: BaseException) -> bool:
    """Return whether a person must change something first: one of the failures says so by its class."""
    return any(isinstance(leaf, SarameyaError) and leaf.permanent for leaf in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The leaves, and what claims have failed of."""
    for leaf in leaves(error):
        yield from _causes(leaf.cause) if isinstance(leaf, ClaimError) else (leaf,)


def exit_code(error: BaseException) -> ExitCode:
    return ExitCode.CONFIGURATION if is_permanent(error) else ExitCode.FAILURE


def error_lines(error: BaseException) -> list[str]:
    """One line for each failure, in order, none twice; more only where our own error says more. What looks secret is
    masked: others' words are in them."""
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
    """Whether the operating system has refused a file, which it names."""
    return isinstance(error, OSError) and error.filename is not None and bool(error.strerror)


def _first_line(error: BaseException) -> str:
    """The line that names it: foreign errors carry whole stacks of other languages in their text (py4j does)."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  it is told all the same (pyspark's ask a JVM for their text, which may be gone)
        return ""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def report(error: BaseException, *, debug: bool) -> ExitCode:
    """Print what went wrong to stderr, or log it where the log is JSON; return the exit code.

    `debug`: the traceback as well.
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
