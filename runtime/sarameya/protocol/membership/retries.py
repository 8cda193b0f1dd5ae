"""Retries of a membership and their delays: part of `machine.py`. Pure.

Only faults count against the user's bounds (`retry_max_attempts`, `retry_timeout`). Two ordinary events do not: a new
rebalance that starts before the current one is complete, and a missing response to a join or sync, which the
coordinator may be holding.
"""

from __future__ import annotations

from sarameya.errors import RetriesExhaustedError
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.membership.messages import RetryScheduled
from sarameya.protocol.membership.states import Request


class MembershipRetries:
    """Attempts of one membership."""

    def __init__(self, group: str, backoff: Backoff) -> None:
        self._group = group
        self._backoff = backoff
        self._faults: dict[Request, Attempts] = {}
        self._overtaken: Attempts | None = None
        self._unanswered: Attempts | None = None

    def after_fault(self, request: Request, now: float, cause: str) -> RetryScheduled:
        """Schedule the retry of a failed request. Raises RetriesExhaustedError at the user's bounds."""
        self._unanswered = None
        attempts = self._faults[request] = _one_more(self._faults.get(request), now, cause)
        if self._backoff.gives_up(attempts, now):
            raise RetriesExhaustedError(self._named(request), attempts.attempt, now - attempts.since, cause)
        return self._scheduled(request, attempts, now, self._backoff.delay(attempts.attempt))

    def after_overtaking(self, now: float, cause: str) -> RetryScheduled:
        """Schedule the next join after another rebalance started before this one was complete. Unlimited."""
        attempts = self._overtaken = _one_more(self._overtaken, now, cause)
        return self._scheduled(Request.JOIN, attempts, now, self._backoff.delay(attempts.attempt))

    @property
    def silences(self) -> int:
        """Number of joins and syncs in a row that got no response in time."""
        return self._unanswered.attempt if self._unanswered is not None else 0

    def after_silence(self, request: Request, sent_at: float, now: float, cause: str) -> RetryScheduled:
        """Schedule the retry of a join or sync that got no response in time. It is due at once.

        That is no fault, however often it happens. A coordinator that accepts new connections, but does not respond, is
        holding the request, for as long as the longest rebalance timeout of any member. That may be longer than this
        member's own timeout.
        """
        attempts = self._unanswered = _one_more(self._unanswered, sent_at, cause)
        return self._scheduled(request, attempts, now, 0.0)

    def answered(self) -> None:
        """Record a response to a join or sync, with or without an error."""
        self._unanswered = None

    def succeeded(self, request: Request) -> None:
        """Record a success: forget the failed attempts before it."""
        if request is Request.SYNC:  # a join is complete only with its sync
            self._overtaken = None
            self._faults.pop(Request.JOIN, None)
        if request is not Request.JOIN:
            self._faults.pop(request, None)

    def clear(self) -> None:
        """Forget all attempts: the membership is over."""
        self._overtaken = self._unanswered = None
        self._faults.clear()

    def _named(self, request: Request) -> str:
        return f"{request.name.lower()} of group {self._group}"

    def _scheduled(self, request: Request, attempts: Attempts, now: float, delay: float) -> RetryScheduled:
        what, since = self._named(request), now - attempts.since
        return RetryScheduled(what, attempts.attempt, since, delay, attempts.cause, request.name.lower())


def _one_more(known: Attempts | None, since: float, cause: str) -> Attempts:
    return known.again(cause) if known is not None else Attempts.first(since, cause)
