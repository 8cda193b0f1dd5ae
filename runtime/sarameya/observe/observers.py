"""Distribution of events to any number of observers. An observer that raises is removed; all others continue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from sarameya.observe.events import Event

logger = logging.getLogger("sarameya")

Observer = Callable[[Event], None]
"""Called with each event, on the event loop, so it must return at once."""


class Observers:
    """Observer that passes events on to any number of observers."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = list(observers)

    def add(self, observer: Observer) -> None:
        """Add an observer, from the next event on."""
        self._observers.append(observer)

    def __call__(self, event: Event) -> None:
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception:
                # It may be removed already: an observer that causes another event may raise for both events.
                if observer in self._observers:
                    self._observers.remove(observer)
                logger.exception("observer %r raised an exception and is removed", observer)
