"""Authentication failures of brokers, in either direction: notification, and a wait before the next attempt.

A retry of the same cannot help, and repeated ones lock accounts. Until the wait is over, attempts get the last error.
The wait is a backoff, since passwords and certificates are corrected while clients run.
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
"""Seconds for which a refusal is remembered, at most."""


@attrs.frozen(slots=True)
class _Refusal:
    error: AuthenticationError
    times: int
    until: float


class Refusals:
    """Refusals of a pool's brokers, by address."""

    def __init__(self, config: Config) -> None:
        self._backoff = attrs.evolve(Backoff.of(config), maximum=max(config.retry_backoff_max, LONGEST))
        self._last: dict[str, _Refusal] = {}
        self._listeners: list[Callable[[AuthenticationError], None]] = []

    @contextmanager
    def listening(self, on_refusal: Callable[[AuthenticationError], None]) -> Iterator[None]:
        """Call `on_refusal` during a block with each refusal, including remembered ones."""
        self._listeners.append(on_refusal)
        try:
            yield
        finally:
            self._listeners.remove(on_refusal)

    @contextmanager
    def connecting(self, address: str) -> Iterator[None]:
        """Run a block that connects to a broker. Raises AuthenticationError if it has just refused us."""
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
        """Remember that a broker has refused us."""
        now = trio.current_time()
        last = self._last.get(address)
        if last is None or last.until <= now:  # otherwise it is the same refusal, reported twice
            times = 1 if last is None else last.times + 1
            self._last[address] = _Refusal(error, times, now + self._backoff.delay(times))

    def notify(self, error: AuthenticationError) -> None:
        """Notify the listeners."""
        for on_refusal in tuple(self._listeners):
            on_refusal(error)
