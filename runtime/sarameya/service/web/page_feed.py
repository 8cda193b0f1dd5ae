"""The last document of a page, made only if a client reads it.

The document is made on the event loop of the members, so that a page must cost nothing while no client has it open.
Events are sent only if they are new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import trio

MakePart = Callable[[], Mapping[str, Any]]
"""Makes a part of a document, when a client needs it."""

NO_EVENTS = 0
"""The number of a client that has no events yet."""


class PageFeed:
    """The last document, and the clients that wait for the next one."""

    def __init__(self) -> None:
        self.is_over = False
        self._next = trio.Event()
        self._waiting = 0
        self._state = _Part()
        self._events = _Part()
        self._number = NO_EVENTS
        self._key: object = None

    @property
    def has_document(self) -> bool:
        """True once there is a document."""
        return self._number > NO_EVENTS

    def publish(self, state: MakePart, events: MakePart, key: object) -> None:
        """Set the document.

        While clients wait, both parts are made at once. An exception is raised here, and the clients continue to wait.

        Args:
            state: Makes the document without its events.
            events: Makes the events.
            key: Differs from the last key if there are new events.
        """
        self._state = _Part(state)
        if not self.has_document or key != self._key:
            self._events, self._key, self._number = _Part(events), key, self._number + 1
        if self._waiting:
            self._state.text()
            self._events.text()
        self._next.set()
        self._next = trio.Event()

    def render(self, known: int = NO_EVENTS) -> tuple[str, int]:
        """Return the document as JSON, and the number of its events.

        The events are left out if that number is `known`.
        """
        state = self._state.text()
        if known == self._number:
            return state, known
        return f"{state[:-1]},{self._events.text()[1:]}", self._number

    def end(self) -> None:
        """End the feed: no more updates follow."""
        self.is_over = True
        self._next.set()

    async def wait_for_update(self) -> bool:
        """Wait for the next update. Return False if the feed has ended."""
        self._waiting += 1
        try:
            await self._next.wait()
        finally:
            self._waiting -= 1
        return not self.is_over


class _Part:
    """A JSON object, made once."""

    def __init__(self, make: MakePart = dict) -> None:
        self._make = make
        self._text = ""

    def text(self) -> str:
        """Return the JSON text."""
        if not self._text:
            self._text = json.dumps(self._make(), separators=(",", ":"))
        return self._text
