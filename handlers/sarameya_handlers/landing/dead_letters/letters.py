"""Dead letters, and the interface of places for them. No I/O here.

`topic.py` writes them to a Kafka topic, `files.py` to Parquet files. Letters are durable before the link that leaves
them out is attempted, so a crash in between loses none. If the attempt fails, or another owner repeats it, the letters
are written again: at least once, not exactly once. Copies have equal topic, partition and offset, and different
attempts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import attrs

from sarameya import SarameyaError
from sarameya_handlers.landing.links import Link


class DeadLetterError(SarameyaError):
    """Dead letters could not be written. Their partition waits, and commits nothing.

    The cause (a full disk, a missing ACL, a topic's size limit) may be removed while it waits.
    """

    retriable = True


@attrs.frozen(slots=True, kw_only=True)
class DeadLetter:
    """A record that cannot land, and its error. Topic and partition are those of the link that leaves it out."""

    offset: int
    error: str
    """Error message, one line."""
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    """Milliseconds since 1970; None if the record has none."""
    timestamp_type: int = 0
    """0: CreateTime, 1: LogAppendTime, as in Spark's Kafka source."""


class DeadLetters(ABC):
    """A place for dead letters, shared by any number of partitions. Use it as an async context manager."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name for log lines, such as `topic orders.dead` or `directory /data/dead`."""

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open the place.

        Raises:
            HandlerError: It cannot be written to until a person changes something.
            DeadLetterError: It cannot be written to now. The cause may pass.
        """

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    async def write(self, link: Link, letters: Sequence[DeadLetter]) -> None:
        """Write letters, and return once all of them are durable.

        Args:
            link: Link that leaves them out.
            letters: Dead letters of that link.

        Raises:
            DeadLetterError: Some may not be written. After this error, or a cancellation, write all of them again.
        """
