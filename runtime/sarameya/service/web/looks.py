"""The last look at a group, as its page is told it: made only where somebody listens, and news only where there is
some. On the event loop that members live on, too, so that a page which nobody has open costs them nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import trio

Made = Callable[[], Mapping[str, Any]]
"""A part of a document, made when it is asked for."""

NOTHING = 0
"""What who has just come has been told."""


class Looks:
    """The document of the last look, and who waits for the next one."""

    def __init__(self) -> None:
        self.is_over = False
        self._next = trio.Event()
        self._waiting = 0
        self._state = _Part()
        self._news = _Part()
        self._number = NOTHING
        self._key: object = None

    @property
    def has_looked(self) -> bool:
        """Whether there is anything to tell."""
        return self._number > NOTHING

    def show(self, state: Made, news: Made, key: object) -> None:
        """It has been looked, and this was seen. `state` is all but the `news`, and these are others only where `key`
        is another.

        Raises what making it raises, where somebody waits for it; they go on waiting then.
        """
        self._state = _Part(state)
        if not self.has_looked or key != self._key:
            self._news, self._key, self._number = _Part(news), key, self._number + 1
        if self._waiting:
            self._state.text()
            self._news.text()
        self._next.set()
        self._next = trio.Event()

    def told(self, known: int = NOTHING) -> tuple[str, int]:
        """The document as JSON, and the number of its news, which it has not where that is what is known already."""
        state = self._state.text()
        if known == self._number:
            return state, known
        return f"{state[:-1]},{self._news.text()[1:]}", self._number

    def end(self) -> None:
        """It is looked no more."""
        self.is_over = True
        self._next.set()

    async def next_look(self) -> bool:
        """Wait for it; False where there is none any more."""
        self._waiting += 1
        try:
            await self._next.wait()
        finally:
            self._waiting -= 1
        return not self.is_over


class _Part:
    """An object in JSON, made once."""

    def __init__(self, make: Made = dict) -> None:
        self._make = make
        self._text = ""

    def text(self) -> str:
        if not self._text:
            self._text = json.dumps(self._make(), separators=(",", ":"))
        return self._text
