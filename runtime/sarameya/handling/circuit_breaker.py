"""A circuit breaker: after several failures in a row, no message is handled until a single one succeeds.

Without it, an outage of a service that `handle` needs sends every message to the dead letters. It is closed (messages
are handled), open (they wait), or probing (one of them is handled, the others wait).
"""

from __future__ import annotations

import math

import trio

from sarameya.handling.options import CircuitBreaker


class Circuit:
    """The state of a handler's circuit breaker, shared by all its messages.

    Args:
        options: The options; None for a circuit that never opens.
    """

    def __init__(self, options: CircuitBreaker | None) -> None:
        self._options = options
        self._failures = 0
        self._opened_until = -math.inf
        self._is_probing = False
        self._changed = trio.Event()

    @property
    def is_open(self) -> bool:
        """True from the failure that opens it until a message has succeeded."""
        return self._opened_until > -math.inf

    async def wait(self) -> bool:
        """Wait until a message may be handled.

        Returns:
            True if the message is the probe of an open circuit. Then `end_probe` has to be called, whatever happens.
        """
        while self.is_open:
            seconds = math.inf if self._is_probing else self._opened_until - trio.current_time()
            if seconds <= 0:
                self._is_probing = True
                return True
            changed = self._changed
            with trio.move_on_after(seconds):
                await changed.wait()
        return False

    def end_probe(self) -> None:
        """Note that the probe has ended. Another message may be one after the pause."""
        self._is_probing = False
        self._change()

    def succeeded(self) -> None:
        """Note that a message was handled."""
        self._failures = 0
        if self.is_open:
            self._opened_until = -math.inf
            self._change()

    def failed(self) -> bool:
        """Note that a message has failed for good. Return whether it has to wait for the circuit to close."""
        if self._options is None:
            return False
        self._failures += 1
        if self._failures >= self._options.failures:
            self._opened_until = trio.current_time() + self._options.pause
        return self.is_open

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
