"""The seam between a sink and where it lands: a `Table` to which a `Landing` is appended.

A sink collects, stages and marks; how an append becomes atomic, and what it does about another writer, is the
table's own business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Checkpoint = Callable[[], None]
"""Raises if the landing is no longer wanted. To be called right before what cannot be taken back."""


@attrs.frozen(slots=True)
class Landing:
    """One try to append one partition's records `[from_offset, to_offset)` to a table."""

    partition: TopicPartition
    from_offset: int
    to_offset: int
    rows: int
    """Records collected; a transform may make more or fewer rows of them."""
    attempt: str
    """Unique to this try: 32 hexadecimal digits."""

    def __str__(self) -> str:
        return f"{self.partition} [{self.from_offset}, {self.to_offset})"


class Table(ABC):
    """Where landings are appended. All methods block and are called in worker threads, `append` in several at once."""

    @property
    @abstractmethod
    def staging(self) -> Path:
        """A directory for Arrow data on its way into Spark: all of Spark's workers can read it, readers of
        the table never see it. There once the table is open."""

    @abstractmethod
    def open(self) -> None:
        """Make the table ready before anything is consumed. Raises HandlerError if it cannot be written."""

    @abstractmethod
    def append(self, landing: Landing, frame: DataFrame, checkpoint: Checkpoint) -> int:
        """Append the frame's rows, all or none, durably; the number of rows appended.

        Raises whatever went wrong. An exception does not always mean that nothing was appended.
        """
