"""Pauses of partitions, for asyncio's thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from sarameya.asyncio.portal import Portal
from sarameya.group.delivery.pauses import Paused, Pausing
from sarameya.model import TopicPartition


class AsyncPausing(ABC):
    """Base class with the methods of a group or a consumer that pause and resume partitions. They are coroutines here.

    Once a call has returned, the iterators of paused claims return nothing.
    """

    @property
    @abstractmethod
    def _pausing(self) -> Pausing: ...

    @property
    @abstractmethod
    def _portal(self) -> Portal: ...

    @property
    def paused(self) -> Paused:
        """The partitions that are paused now: `partition in group.paused`."""
        return self._pausing.paused

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause partitions: fetching stops, and buffered messages are kept.

        The position stays; marks and commits continue as usual. A partition that is not assigned now is paused once it
        is.

        Raises:
            TypeError: A value is not a TopicPartition.
        """
        await self._portal.call_sync(self._pausing.pause, partitions)

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume partitions where they stopped. After `pause_all`, all other partitions stay paused.

        Raises:
            TypeError: A value is not a TopicPartition.
        """
        await self._portal.call_sync(self._pausing.resume, partitions)

    async def pause_all(self) -> None:
        """Pause all partitions that are assigned now or later."""
        await self._portal.call_sync(self._pausing.pause_all)

    async def resume_all(self) -> None:
        """Resume all partitions, however they were paused."""
        await self._portal.call_sync(self._pausing.resume_all)
