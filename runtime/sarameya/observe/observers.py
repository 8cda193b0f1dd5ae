"""Who is told of events: any number of observers, of which none can hurt the others, nor consuming."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from sarameya.observe.events import Event

logger = logging.getLogger("sarameya")

Observer = Callable[[Event], None]
"""Whoever is called with each event; on the event loop, so it must return at once."""


class Observers:
    """A fan-out to any number of observers; itself an observer."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = list(observers)

    def add(self, observer: Observer) -> None:
        """Have one more told, from the next event on."""
        self._observers.append(observer)

    def __call__(self, event: Event) -> None:
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception:
                # It may be out already: what one observer raises may have come from events within events.
                if observer in self._observers:
                    self._observers.remove(observer)
                logger.exception("observer %r raised and is taken out", observer)
