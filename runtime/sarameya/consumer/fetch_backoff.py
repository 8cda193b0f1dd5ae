"""Backoff after responses without records: empty before `fetch_max_wait`, or larger than `max_response_bytes`.

A rule that is easily broken:

- A wait follows each such response. Otherwise a faulty broker would get requests in a hot loop. Test:
  `tests/consumer/test_fetch_sessions.py::test_early_empty_responses_cause_no_hot_loop`.
"""

from __future__ import annotations

import trio

from sarameya.config import Config
from sarameya.observe import Observer, Retrying
from sarameya.protocol.backoff import Attempts, Backoff


class FetchBackoff:
    """Backoff between fetches from one broker."""

    def __init__(self, node_id: int, config: Config, observer: Observer, backoff: Backoff) -> None:
        self._node_id = node_id
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self.attempts: Attempts | None = None
        """Early empty responses in a row; None after a regular response."""

    def reset(self) -> None:
        """Record a regular response: it had records, or took `fetch_max_wait`."""
        self.attempts = None

    async def wait(self, cause: str) -> None:
        """Report the cause and wait, at most `fetch_max_wait`: other partitions may get records meanwhile."""
        now = trio.current_time()
        attempts = self.attempts = self.attempts.again(cause) if self.attempts else Attempts.first(now, cause)
        delay = min(self._backoff.delay(attempts.attempt), self._config.fetch_max_wait)
        what, since = f"fetch from broker {self._node_id}", now - attempts.since
        self._observer(Retrying(what, attempts.attempt, since, delay, cause, kind="fetch"))
        await trio.sleep(delay)
