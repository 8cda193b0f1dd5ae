"""Brokers that do not take us, or are not shown to be who they should be: who hears of it, and for how long they are
not asked again.

Trying the same again cannot help, and locks accounts where it goes on for long. Whoever asks all the same is given the
last answer, until that has grown old: by a backoff, since passwords and certificates are put right while clients run.
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
"""Seconds that a refusal is good for, at most."""


@attrs.frozen(slots=True)
class _Refusal:
    error: AuthenticationError
    times: int
    until: float


class Refusals:
    """Those of a pool's brokers, by address."""

    def __init__(self, config: Config) -> None:
        self._backoff = attrs.evolve(Backoff.of(config), maximum=max(config.retry_backoff_max, LONGEST))
        self._last: dict[str, _Refusal] = {}
        self._listeners: list[Callable[[AuthenticationError], None]] = []

    @contextmanager
    def listening(self, told: Callable[[AuthenticationError], None]) -> Iterator[None]:
        """For the length of a block, tell of each refusal, also of those that are told again."""
        self._listeners.append(told)
        try:
            yield
        finally:
            self._listeners.remove(told)

    @contextmanager
    def connecting(self, address: str) -> Iterator[None]:
        """A block that connects to a broker. Raises AuthenticationError where it has just refused us."""
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
        """A broker has refused us."""
        now = trio.current_time()
        last = self._last.get(address)
        if last is None or last.until <= now:  # and it is not the same, told twice
            times = 1 if last is None else last.times + 1
            self._last[address] = _Refusal(error, times, now + self._backoff.delay(times))

    def tell(self, error: AuthenticationError) -> None:
        """Have those who listen hear of it."""
        for told in tuple(self._listeners):
            told(error)
