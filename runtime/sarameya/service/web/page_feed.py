"""The last document of a page, made only if somebody reads it.

It is made on the event loop of the members: a page that nobody has open must cost them nothing. Events are sent only if
there are new ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import trio

Made = Callable[[], Mapping[str, Any]]
"""Makes a part of a document when it is needed."""

NOTHING = 0
"""The number of a client that has no events yet."""


class PageFeed:
    """The last document, and the clients that wait for the next one."""

    def __init__(self) -> None:
        self.is_over = False
        self._next = trio.Event()
        self._waiting = 0
        self._state = _Part()
        self._news = _Part()
        self._number = NOTHING
        self._key: object = None

    @property
    def has_document(self) -> bool:
        """True once there is a document."""
        return self._number > NOTHING

    def publish(self, state: Made, news: Made, key: object) -> None:
        """Set the document.

        An exception of the makers is raised, if clients wait for the document; they go on waiting.

        Args:
            state: Makes all but the events.
            news: Makes the events.
            key: Changes only with the events.
        """
        self._state = _Part(state)
        if not self.has_document or key != self._key:
            self._news, self._key, self._number = _Part(news), key, self._number + 1
        if self._waiting:
            self._state.text()
            self._news.text()
        self._next.set()
        self._next = trio.Event()

    def render(self, known: int = NOTHING) -> tuple[str, int]:
        """Return the document as JSON, and the number of its events.

        The events are left out if that number is `known`.
        """
        state = self._state.text()
        if known == self._number:
            return state, known
        return f"{state[:-1]},{self._news.text()[1:]}", self._number

    def end(self) -> None:
        """End the feed: no more updates follow."""
        self.is_over = True
        self._next.set()

    async def wait_for_update(self) -> bool:
        """Wait for the next update. Return False if there is none any more."""
        self._waiting += 1
        try:
            await self._next.wait()
        finally:
            self._waiting -= 1
        return not self.is_over


class _Part:
    """A JSON object, made once."""

    def __init__(self, make: Made = dict) -> None:
        self._make = make
        self._text = ""

    def text(self) -> str:
        """Return the JSON text."""
        if not self._text:
            self._text = json.dumps(self._make(), separators=(",", ":"))
        return self._text
