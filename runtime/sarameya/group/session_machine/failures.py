"""The meaning of an exception that a task of the handler has raised. Pure.

A rule that is easily broken:

- A CommitError that leaves `consume_claim`, `setup` or `cleanup` is no failure of the handler. Its generation is over:
  the session ends as lost, and the group rejoins (`tests/group/test_reactions.py`).
"""

from __future__ import annotations

from sarameya.errors import ClaimError, CommitError, HandlerError, SarameyaError
from sarameya.group.session_machine.messages import ReaderFailed


def reader_failure(failed: ReaderFailed, generation: int) -> SarameyaError:
    """Return what `consume()` raises for a task that reads and has raised."""
    error = failed.error
    failure: SarameyaError
    if failed.partition is not None:
        failure = ClaimError(failed.partition, failed.position, generation, error)
    else:
        failure = HandlerError(f"{failed.name}, generation {generation}: {type(error).__name__}: {error}")
        failure.permanent = isinstance(error, SarameyaError) and error.permanent
    failure.__cause__ = error
    return failure


def is_of_commits(error: Exception) -> bool:
    """Return whether a commit of the handler came too late, and nothing else is wrong.

    Its generation is over, which is not a failure of the handler.
    """
    if isinstance(error, ExceptionGroup):
        return all(is_of_commits(one) for one in error.exceptions)
    return isinstance(error, CommitError)
