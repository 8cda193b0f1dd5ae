"""Where records go that cannot land: what a dead letter is, and what a place for them promises. No I/O here.

`dead_letter_topic` writes them to a Kafka topic, `dead_letter_files` to Parquet files. A place says that letters are
durable before the link that leaves them out is tried. So none is lost, whatever dies in between; but letters whose link
is then not ours, or is tried again by another owner, are written again: at least once, never exactly once. `attempt`
tells the copies apart, and topic, partition and offset say that they are copies.
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
    """Dead letters could not be written. The records stay where they are: their partition waits, nothing is committed.

    What is in the way (a full disk, a missing grant, a topic that takes less) may be mended while it waits.
    """

    retriable = True


@attrs.frozen(slots=True, kw_only=True)
class DeadLetter:
    """A record that cannot land, and why. Its topic and partition are those of the link that leaves it out."""

    offset: int
    error: str
    """One line."""
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    """Milliseconds since 1970; None where the record has none."""
    timestamp_type: int = 0
    """As in Spark's Kafka source: 0 says that its producer set it, 1 that its topic did."""


class DeadLetters(ABC):
    """A place for dead letters; an async context manager for as long as it is used, by any number of partitions."""

    @property
    @abstractmethod
    def name(self) -> str:
        """In words: `topic orders.dead`, `directory /data/dead`."""

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Raises HandlerError, or what the place raises, where it cannot be written to at all."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    async def write(self, link: Link, letters: Sequence[DeadLetter]) -> None:
        """Returns once all of them are durable; `link` is the one that leaves them out.

        Raises DeadLetterError. That, or a cancellation, leaves it open which of them are written: write all again.
        """
