"""Classification of exceptions that the handler has raised. Pure.

A rule that is easily broken:

- A CommitError that `consume_claim`, `setup` or `cleanup` raises is not a failure of the handler. Its generation is
  over: the session ends as lost, and the member rejoins (`tests/group/test_reactions.py`).
"""

from __future__ import annotations

from sarameya.errors import ClaimError, CommitError, HandlerError, SarameyaError
from sarameya.group.session_machine.messages import ReaderFailed


def reader_failure(failed: ReaderFailed, generation: int) -> SarameyaError:
    """Return the exception that `consume()` raises for a failed reader."""
    error = failed.error
    failure: SarameyaError
    if failed.partition is not None:
        failure = ClaimError(failed.partition, failed.position, generation, error)
    else:
        failure = HandlerError(f"{failed.name}, generation {generation}: {type(error).__name__}: {error}")
        failure.permanent = isinstance(error, SarameyaError) and error.permanent
    failure.__cause__ = error
    return failure


def is_late_commit(error: Exception) -> bool:
    """Return whether the error is only a commit of the handler in a generation that is over, not a failure."""
    if isinstance(error, ExceptionGroup):
        return all(is_late_commit(each) for each in error.exceptions)
    return isinstance(error, CommitError)
