"""What it means that a part of a handler has failed."""

from __future__ import annotations

from sarameya.errors import ClaimError, CommitError, HandlerError, SarameyaError
from sarameya.group.claim import Claim


def reader_failure(name: str, claim: Claim | None, generation: int, error: Exception) -> SarameyaError:
    """What `consume()` raises for a task that reads and raised `error`, at this claim if that can be said."""
    failure: SarameyaError
    if claim is not None:
        failure = ClaimError(claim.topic_partition, claim.position, generation, error)
    else:
        failure = HandlerError(f"{name}, generation {generation}: {type(error).__name__}: {error}")
        failure.permanent = isinstance(error, SarameyaError) and error.permanent
    failure.__cause__ = error
    return failure


def is_of_commits(error: Exception) -> bool:
    """Whether the handler's own commit came too late, and nothing else is wrong: its generation is over, which is no
    failure of the handler."""
    if isinstance(error, ExceptionGroup):
        return all(is_of_commits(one) for one in error.exceptions)
    return isinstance(error, CommitError)
