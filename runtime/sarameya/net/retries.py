"""Waits between the attempts of an operation, by the common backoff and visible to observers."""

from __future__ import annotations

import trio

from sarameya.errors import RetriesExhaustedError
from sarameya.observe import Observer, Retrying
from sarameya.protocol.backoff import Attempts, Backoff


class Retries:
    """Attempts of one operation. Make a new object for each operation.

    Args:
        what: The operation, for messages.
        backoff: Delays and bounds.
        observer: Called with a `Retrying` event before each wait.
        kind: Kind of the operation, for metrics.
    """

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
            RetriesExhaustedError: The bounds of the backoff allow no further attempt.
        """
        now = trio.current_time()
        attempts = self._attempts.again(cause) if self._attempts else Attempts.first(now, cause)
        self._attempts = attempts
        if self._backoff.gives_up(attempts, now):
            raise RetriesExhaustedError(self._what, attempts.attempt, now - attempts.since, cause)
        delay = self._backoff.delay(attempts.attempt)
        self._observer(Retrying(self._what, attempts.attempt, now - attempts.since, delay, cause, self._kind))
        await trio.sleep(delay)
