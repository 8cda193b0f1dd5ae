"""Retry delays: one wait between two attempts, by the common backoff, and visible to observers."""

from __future__ import annotations

import trio

from sarameya.errors import RetriesExhaustedError
from sarameya.observe import Observer, Retrying
from sarameya.protocol.backoff import Attempts, Backoff


class Retries:
    """Attempts of one operation (`what`, in words, and its `kind`). Make a new one for each operation."""

    def __init__(self, what: str, backoff: Backoff, observer: Observer, *, kind: str) -> None:
        self._what = what
        self._kind = kind
        self._observer = observer
        self._backoff = backoff
        self._attempts: Attempts | None = None

    async def wait(self, cause: str) -> None:
        """Report the failure of the last attempt, and wait before the next one.

        Args:
            cause: Reason of the failure.

        Raises:
            RetriesExhaustedError: The options allow no further attempt.
        """
        now = trio.current_time()
        attempts = self._attempts.again(cause) if self._attempts else Attempts.first(now, cause)
        self._attempts = attempts
        if self._backoff.gives_up(attempts, now):
            raise RetriesExhaustedError(self._what, attempts.attempt, now - attempts.since, cause)
        delay = self._backoff.delay(attempts.attempt)
        self._observer(Retrying(self._what, attempts.attempt, now - attempts.since, delay, cause, self._kind))
        await trio.sleep(delay)
