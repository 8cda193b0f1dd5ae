"""Objects that live in a thread of their own, for the length of an `async with`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from sarameya.asyncio.portal import Portal


class ThreadBlock:
    """Base class of the objects that a user of asyncio opens with `async with`."""

    def _live_in(self, thread: str, runtime: AbstractAsyncContextManager[object], closed: str) -> None:
        """Set the object of trio that the thread runs.

        Args:
            thread: Name of the thread.
            runtime: The object: its block lasts as long as the block of this object.
            closed: Text of the RuntimeError of a call outside of the block.
        """
        self._thread = thread
        self._runtime = runtime
        self._closed = closed
        self._opened: Portal | None = None
        self._was_entered = False

    @property
    def _portal(self) -> Portal:
        if self._opened is None:
            raise RuntimeError(self._closed)
        return self._opened

    async def __aenter__(self) -> Self:
        if self._was_entered:
            raise RuntimeError(f"this {type(self).__name__} was entered already: create an object for each block")
        self._was_entered = True
        portal = Portal(self._thread, self._runtime, self._closed)
        await portal.open()
        self._opened = portal
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._portal.close()
