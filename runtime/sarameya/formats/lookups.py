"""Results of a blocking function: each is looked up once, in a worker thread, however many tasks wait for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs
import trio

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a worker thread, which is left behind if the caller is cancelled."""
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True)


@attrs.define(slots=True, eq=False)
class _Pending:
    done: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


class Lookups(Generic[K, T]):
    """Results of one function.

    Args:
        look_up: The function. It may block, and may run in several threads at once. Its errors are not kept: the next
            call repeats it.
    """

    def __init__(self, look_up: Callable[[K], T]) -> None:
        self._look_up = look_up
        self._known: dict[K, T] = {}
        self._pending: dict[K, _Pending] = {}

    async def get(self, key: K) -> T:
        """Return the result for a key.

        Raises:
            Exception: The error of the function. All tasks that wait for one call get it.
        """
        while key not in self._known:
            pending = self._pending.get(key)
            if pending is None:
                await self._call(key)
                continue
            await pending.done.wait()
            if (error := pending.error) is not None:
                # One exception that several tasks raise would collect the traceback of each.
                raise type(error)(*error.args) from error.__cause__
        return self._known[key]

    async def _call(self, key: K) -> None:
        pending = self._pending[key] = _Pending()
        try:
            self._known[key] = await run_in_thread(lambda: self._look_up(key))
        except Exception as error:
            pending.error = error
            raise
        finally:
            del self._pending[key]
            pending.done.set()
