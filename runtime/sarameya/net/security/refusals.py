"""Authentication failures: notification of listeners, and a wait before the next attempt to connect.

A broker may refuse this client, or fail to prove its own identity. A retry with the same credentials does not help, and
repeated retries lock accounts. So until the wait is over, attempts to connect fail with the last error. The waits grow
and end, since users correct passwords and certificates while clients run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from sarameya.config import Config
from sarameya.errors import AuthenticationError
from sarameya.protocol.backoff import Backoff

LONGEST = 30.0
"""Maximal wait in seconds."""


@attrs.frozen(slots=True)
class _Refusal:
    error: AuthenticationError
    attempts: int
    until: float


class Refusals:
    """Authentication failures of a pool's brokers, by address."""

    def __init__(self, config: Config) -> None:
        self._backoff = attrs.evolve(Backoff.of(config), maximum=max(config.retry_backoff_max, LONGEST))
        self._last: dict[str, _Refusal] = {}
        self._listeners: list[Callable[[AuthenticationError], None]] = []

    @contextmanager
    def listening(self, on_refusal: Callable[[AuthenticationError], None]) -> Iterator[None]:
        """Call `on_refusal` during a block with each refusal, including those repeated during a wait."""
        self._listeners.append(on_refusal)
        try:
            yield
        finally:
            self._listeners.remove(on_refusal)

    @contextmanager
    def connecting(self, address: str) -> Iterator[None]:
        """Run a block that connects to a broker. Raises the last AuthenticationError during the wait after it."""
        last = self._last.get(address)
        if last is not None and trio.current_time() < last.until:
            raise last.error.again()
        try:
            yield
        except AuthenticationError as error:
            self.remember(address, error)
            raise
        self._last.pop(address, None)

    def remember(self, address: str, error: AuthenticationError) -> None:
        """Start the wait for this broker."""
        now = trio.current_time()
        last = self._last.get(address)
        if last is None or last.until <= now:  # otherwise it is the same refusal, reported twice
            attempts = 1 if last is None else last.attempts + 1
            self._last[address] = _Refusal(error, attempts, now + self._backoff.delay(attempts))

    def notify(self, error: AuthenticationError) -> None:
        """Call the listeners with this error."""
        for on_refusal in tuple(self._listeners):
            on_refusal(error)
