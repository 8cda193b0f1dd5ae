"""Conversion of one partition's record batches to columns, several batches at a time. Pure.

`record_walk` reads the batches if its libraries are installed and the batches have nothing unusual. Otherwise they are
decoded one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sarameya.errors import RecordError
from sarameya.extras import install_command
from sarameya.message_batch import MessageColumns
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, decode_columns, uncompressed

if TYPE_CHECKING:
    from sarameya.protocol.records.record_walk import RecordWalk

_ENOUGH_MESSAGES = 4000
"""Messages after which a result is complete: the cost of a call is then small, compared to that of its messages."""
_ENOUGH_BYTES = 4 * 2**20
"""Decompressed bytes after which a result is complete."""


class ColumnReader:
    """Reader of one partition's record batches. Only one thread at a time may use it."""

    def __init__(self, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1) -> None:
        """Create a reader.

        Args:
            partition: The partition.
            check_crc: Compare checksums.
            limit: Bytes to which one record batch may be decompressed.
        """
        self._partition = partition
        self._check_crc = check_crc
        self._limit = limit

    @cached_property
    def _walks(self) -> list[RecordWalk]:
        """Walks to try in turn. Imported at the first use: not every user reads columns, or has the libraries."""
        try:
            from sarameya.protocol.records.record_walk import walks
        except ImportError as error:
            _warn_of_missing_library(error.name)
            return []
        return walks()

    def read(self, raws: Iterable[RawBatch]) -> tuple[MessageColumns, int]:
        """Read the first batch and the next batches of the same kind, until there are enough messages or bytes.

        Batches are of the same kind if they have the same timestamp type and leader epoch.

        Returns:
            The columns, and the number of batches that they cover.

        Raises:
            RecordError: The first batch cannot be read (see `decode`). A later batch with a fault is left for the next
                call.
        """
        chosen: list[RawBatch] = []
        count = 0
        for raw in raws:
            if chosen and _kind(raw) != _kind(chosen[0]):
                break
            chosen.append(raw)
            count += raw.record_count or 1
            if count >= _ENOUGH_MESSAGES:
                break
        return self._walked(chosen) or self._one_by_one(chosen)

    def _walked(self, raws: list[RawBatch]) -> tuple[MessageColumns, int] | None:
        if not self._walks:
            return None
        plain: list[memoryview] = []
        size = 0
        for raw in raws:
            if raw.magic != 2:
                break
            try:
                plain.append(uncompressed(raw, self._partition, check_crc=self._check_crc, limit=self._limit))
            except RecordError:
                break
            size += len(plain[-1])
            if size >= _ENOUGH_BYTES:
                break
        for place, walk in enumerate(self._walks if plain else ()):
            if (columns := walk.columns(raws[: len(plain)], plain, self._partition)) is not None:
                del self._walks[:place]  # later batches have the same fields
                return columns, len(plain)
        return None

    def _one_by_one(self, raws: list[RawBatch]) -> tuple[MessageColumns, int]:
        parts: list[MessageColumns] = []
        for raw in raws:
            try:
                parts.append(decode_columns(raw, self._partition, check_crc=self._check_crc, limit=self._limit))
            except RecordError:
                if not parts:
                    raise
                break
        return MessageColumns.joined(parts), len(parts)


def _kind(raw: RawBatch) -> tuple[int, int]:
    return raw.timestamp_type, raw.leader_epoch


@cache
def _warn_of_missing_library(name: str | None) -> None:
    """Log a warning, once, if pyarrow is installed: the user then probably wants columns."""
    if find_spec("pyarrow") is not None:
        logging.getLogger(__name__).warning(
            "%s is missing; record batches are read into columns one by one, at half the speed (%s)",
            name,
            install_command("spark"),
        )
