"""How often the membership has tried what, and when it may try again: the bookkeeping of `membership.py`. Pure.

Faults alone count against the user's bounds (`retry_max_attempts`, `retry_timeout`). What is in the ordinary course of
events does not: a rebalance that overtakes the one before it, and the silence of a coordinator that may be holding a
join or a sync.
"""

from __future__ import annotations

from sarameya.errors import RetriesExhaustedError
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.membership_messages import RetryScheduled
from sarameya.protocol.reactions import Request


class MembershipRetries:
    """The tries of one membership."""

    def __init__(self, group: str, backoff: Backoff) -> None:
        self._group = group
        self._backoff = backoff
        self._faults: dict[Request, Attempts] = {}
        self._overtaken: Attempts | None = None
        self._unanswered: Attempts | None = None

    def after_fault(self, request: Request, now: float, cause: str) -> RetryScheduled:
        """When to send the request again that has failed. Raises RetriesExhaustedError where the bounds are reached."""
        self._unanswered = None
        attempts = self._faults[request] = _one_more(self._faults.get(request), now, cause)
        if self._backoff.gives_up(attempts, now):
            raise RetriesExhaustedError(self._named(request), attempts.attempt, now - attempts.since, cause)
        return self._scheduled(request, attempts, now, self._backoff.delay(attempts.attempt))

    def after_overtaking(self, now: float, cause: str) -> RetryScheduled:
        """When to join again: the group began another round before this one was synced. As often as it takes."""
        attempts = self._overtaken = _one_more(self._overtaken, now, cause)
        return self._scheduled(Request.JOIN, attempts, now, self._backoff.delay(attempts.attempt))

    @property
    def silences(self) -> int:
        """How often, one after the other, a join or sync was not answered in the time given to it."""
        return self._unanswered.attempt if self._unanswered is not None else 0

    def after_silence(self, request: Request, sent_at: float, now: float, cause: str) -> RetryScheduled:
        """A join or sync without an answer is sent again at once: the wait is over already. It is no fault, however
        often: a coordinator that takes new connections and answers nothing holds it, for as long as the most patient
        member of the group has asked for; that may be longer than we have."""
        attempts = self._unanswered = _one_more(self._unanswered, sent_at, cause)
        return self._scheduled(request, attempts, now, 0.0)

    def answered(self) -> None:
        """A join or sync was, whatever the answer."""
        self._unanswered = None

    def succeeded(self, request: Request) -> None:
        if request is Request.SYNC:  # a join is not over before it
            self._overtaken = None
            self._faults.pop(Request.JOIN, None)
        if request is not Request.JOIN:
            self._faults.pop(request, None)

    def clear(self) -> None:
        """The membership is over: the next one has tried nothing yet."""
        self._overtaken = self._unanswered = None
        self._faults.clear()

    def _named(self, request: Request) -> str:
        return f"{request.name.lower()} of group {self._group}"

    def _scheduled(self, request: Request, attempts: Attempts, now: float, delay: float) -> RetryScheduled:
        what, since = self._named(request), now - attempts.since
        return RetryScheduled(what, attempts.attempt, since, delay, attempts.cause, request.name.lower())


def _one_more(known: Attempts | None, since: float, cause: str) -> Attempts:
    return known.again(cause) if known is not None else Attempts.first(since, cause)
