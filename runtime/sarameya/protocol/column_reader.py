"""The record batches of one partition -> columns, as many batches at a time as make a batch worth handing out. Pure.

Reads them by `record_walk`, where what that needs is installed and nothing is odd about them; else one by one.
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
from sarameya.protocol.records import RawBatch, decode_columns, uncompressed

if TYPE_CHECKING:
    from sarameya.protocol.record_walk import RecordWalk

_ENOUGH_MESSAGES = 4000
"""What a batch costs is little then beside what its messages do."""
_ENOUGH_BYTES = 4 * 2**20


class ColumnReader:
    """Reads for one partition. One thread at a time may use it."""

    def __init__(self, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1) -> None:
        """`limit` bounds the decompressed size of a record batch in bytes."""
        self._partition = partition
        self._check_crc = check_crc
        self._limit = limit

    @cached_property
    def _walks(self) -> list[RecordWalk]:
        """Imported and made when first asked for: not everybody reads columns, or has what that needs."""
        try:
            from sarameya.protocol.record_walk import walks
        except ImportError as error:
            _say_what_is_missing(error.name)
            return []
        return walks()

    def read(self, raws: Iterable[RawBatch]) -> tuple[MessageColumns, int]:
        """The messages of the first batch, and of those behind it that are alike in timestamp type and leader epoch,
        until there are enough; and of how many batches they are.

        Raises RecordError, as `records.decode` does, where the first cannot be read; one behind it stays the next.
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
                del self._walks[:place]  # what one batch has others will have
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
def _say_what_is_missing(name: str | None) -> None:
    """Once, and only to those who seem to want columns."""
    if find_spec("pyarrow") is not None:
        logging.getLogger(__name__).warning(
            "%s is missing; record batches are read into columns one by one, at half the speed (%s)",
            name,
            install_command("spark"),
        )
