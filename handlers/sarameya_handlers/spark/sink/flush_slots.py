"""Slots for the work that a sink's tables do with Spark. Tables that have failed leave at least one to the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class FlushSlots:
    """Slots for flushes, and for the opening of tables.

    A table whose last attempt has failed may wait long in its slot, for a store that does not respond. Such tables
    together have one slot less than there are, if there are several.

    Args:
        total: Number of slots.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._slots = trio.CapacityLimiter(total)
        self._slots_of_failed = trio.CapacityLimiter(max(total - 1, 1))

    async def acquire(self, slot: object, *, has_failed: bool = False) -> None:
        """Wait for a slot, and take it.

        Args:
            slot: Identity of the slot, for `release`.
            has_failed: True if the table's last attempt has failed.
        """
        if has_failed:
            await self._slots_of_failed.acquire_on_behalf_of(slot)
        try:
            await self._slots.acquire_on_behalf_of(slot)
        except BaseException:
            if has_failed:
                self._slots_of_failed.release_on_behalf_of(slot)
            raise

    def release(self, slot: object) -> None:
        """Give a slot back."""
        self._slots.release_on_behalf_of(slot)
        if slot in self._slots_of_failed.statistics().borrowers:
            self._slots_of_failed.release_on_behalf_of(slot)

    @asynccontextmanager
    async def slot(self, *, has_failed: bool = False) -> AsyncIterator[None]:
        """Take a slot for the length of a block."""
        await self.acquire(slot := object(), has_failed=has_failed)
        try:
            yield
        finally:
            self.release(slot)

    def flushes_ahead(self, waiting: int) -> int:
        """Return the number of successive flushes that are before one that is submitted now.

        Args:
            waiting: Number of flushes of the same table that wait, and do not ask for a slot yet.
        """
        return (self._slots.borrowed_tokens + self._slots.statistics().tasks_waiting + waiting) // self._total
