"""Fetches that were answered in a hurry, and with nothing: the next one waits, or it would be answered so again."""

from __future__ import annotations

import trio

from sarameya.config import Config
from sarameya.observe import Observer, Retrying
from sarameya.protocol.backoff import Attempts, Backoff


class SlowingDown:
    """One broker's."""

    def __init__(self, node_id: int, config: Config, observer: Observer, backoff: Backoff) -> None:
        self._node_id = node_id
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self.attempts: Attempts | None = None
        """How often, one after the other; None where the last answer said something, or took its time."""

    def over(self) -> None:
        """An answer said something, or took its time."""
        self.attempts = None

    async def slow_down(self, cause: str) -> None:
        """Say why, and wait: no longer than the broker might have waited, since others may have something meanwhile."""
        now = trio.current_time()
        attempts = self.attempts = self.attempts.again(cause) if self.attempts else Attempts.first(now, cause)
        delay = min(self._backoff.delay(attempts.attempt), self._config.fetch_max_wait)
        what, since = f"fetch from broker {self._node_id}", now - attempts.since
        self._observer(Retrying(what, attempts.attempt, since, delay, cause, kind="fetch"))
        await trio.sleep(delay)
