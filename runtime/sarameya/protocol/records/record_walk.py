"""Conversion of many record batches at a time to Arrow columns, without a Python object for each record. Pure.

Records have different lengths, so they must be read one after the other. An AwkwardForth machine does that: a small
compiled interpreter that reads columns from binary formats and checks bounds. numpy then checks all results at once. If
anything is unusual, the walk returns None, and `batch_codec` decodes batch by batch and reports the error. Needs
awkward-cpp, numpy and pyarrow (`sarameya[spark]`).

A rule that is easily broken:

- The walk and `batch_codec` must agree on every batch. Tests:
  `tests/protocol/test_column_reader.py::test_columns_of_any_batches_equal_their_messages`,
  `tests/protocol/test_column_reader.py::test_mutated_batches_fail_as_when_decoded_one_by_one`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from awkward_cpp.lib._ext import ForthMachine64

from sarameya.arrow import binary_column, headers_column, int_column
from sarameya.message_batch import MessageColumns
from sarameya.model import TimestampType, TopicPartition
from sarameya.protocol.records.batch_headers import V2_HEADER, RawBatch

_Ints = npt.NDArray[np.int64]

_LONGEST_OF = (1 << 6) - 1, (1 << 13) - 1, (1 << 20) - 1, (1 << 27) - 1
"""The largest length that fits in a zigzag varint of 1, 2, 3 or 4 bytes."""
_OUTPUTS = 4096
"""Initial capacity of each output; it doubles as needed. A larger one would be freed and allocated for each call."""


def walks() -> list[RecordWalk]:
    """Return all walks, the fastest first: without keys and headers, with keys, with both.

    Each reads batches that the previous walk refuses because of their keys or headers.
    """
    return [RecordWalk(keys=keys, headers=headers) for keys, headers in ((False, False), (True, False), (True, True))]


class RecordWalk:
    """Reader of batches. Only one thread at a time may use it.

    Args:
        keys: Read keys; otherwise refuse batches with keys.
        headers: Read headers; otherwise refuse batches with headers.
    """

    def __init__(self, *, keys: bool, headers: bool) -> None:
        self._keys, self._headers = keys, headers
        self._machine: Any = ForthMachine64(
            _program(keys, headers), output_initial_size=_OUTPUTS, output_resize_factor=2.0
        )

    def columns(
        self, raws: Sequence[RawBatch], plain: Sequence[memoryview], partition: TopicPartition
    ) -> MessageColumns | None:
        """Convert v2 batches to columns, or return None if any of them is unusual.

        Args:
            raws: At least one batch, all with the same timestamp type and leader epoch.
            plain: The same batches without compression, CRCs checked.
            partition: The partition.
        """
        if any((raw.record_count or 0) <= 0 for raw in raws):
            return None
        batches, found = _joined(raws, plain), self._machine
        counts = np.array([raw.record_count for raw in raws], np.int64)
        try:
            found.run({"batches": batches, "counts": counts})
        except ValueError:
            return None
        fields: _Ints = found["fields"].reshape(-1, 4 if self._keys else 5)
        last = counts.cumsum() - 1
        ends_of_batches = np.array([len(batch) for batch in plain], np.int64).cumsum()
        if not _lengths_are_right(batches, fields[:, 0], found["ends"], last, ends_of_batches):
            return None
        offsets = _offsets(raws, fields[:, 3], counts, last)
        key_lengths = found["key_lengths"] if self._keys else fields[:, 4]
        has_more = (not self._keys and key_lengths.max() >= 0) or (not self._headers and found["header_counts"].any())
        if offsets is None or has_more:
            return None
        try:
            headers = headers_column(
                found["header_counts"],
                found["header_key_lengths"],
                found["header_keys"],
                found["header_value_lengths"],
                found["header_values"],
            )
            keys = binary_column("key", key_lengths, found["keys"])
            values = binary_column("value", found["value_lengths"], found["values"])
        except ValueError:
            return None
        return MessageColumns(
            topic=partition.topic,
            partition=partition.partition,
            timestamp_type=raws[0].timestamp_type,
            leader_epoch=raws[0].leader_epoch,
            offsets=int_column(offsets),
            timestamps=int_column(_timestamps(raws, fields[:, 2], counts)),
            keys=keys,
            values=values,
            headers=headers,
        )


def _program(keys: bool, headers: bool) -> str:
    """Return the Forth program that reads all records of all batches.

    `fields` gets the length, the attributes, the timestamp delta and the offset delta of each record; without keys also
    the key's length. `ends` gets the position after each record. A negative length (null) reads no bytes. Each Forth
    word that is executed for a record costs ten nanoseconds, so the program has no words for absent fields.
    """
    front = "4 batches #zigzag-> fields batches zigzag-> stack dup key_lengths <- stack batches #B-> keys"
    end = "batches zigzag-> stack dup if headers else header_counts <- stack then"
    return f"""
        input batches
        input counts
        output fields int64
        output key_lengths int64
        output keys uint8
        output value_lengths int64
        output values uint8
        output header_counts int64
        output header_key_lengths int64
        output header_keys uint8
        output header_value_lengths int64
        output header_values uint8
        output ends int64

        : headers
            dup header_counts <- stack
            0 do
                batches zigzag-> stack dup header_key_lengths <- stack batches #B-> header_keys
                batches zigzag-> stack dup header_value_lengths <- stack batches #B-> header_values
            loop
        ;

        begin
            {V2_HEADER.size} batches skip
            counts q-> stack 0 do
                {front if keys else "5 batches #zigzag-> fields"}
                batches zigzag-> stack dup value_lengths <- stack batches #B-> values
                {end if headers else "batches zigzag-> header_counts"}
                batches pos ends <- stack
            loop
        counts end until
    """


def _joined(raws: Sequence[RawBatch], plain: Sequence[memoryview]) -> npt.NDArray[np.uint8]:
    """Return the bytes of the batches in one array, without a copy if they are adjacent already."""
    first, last = raws[0], raws[-1]
    if all(batch.obj is first.log for batch in plain) and sum(map(len, plain)) == last.end - first.start:
        return np.frombuffer(first.log, np.uint8, last.end - first.start, first.start)
    return np.frombuffer(b"".join(plain), np.uint8)


def _lengths_are_right(
    batches: npt.NDArray[np.uint8], lengths: _Ints, ends: _Ints, last: _Ints, ends_of_batches: _Ints
) -> bool:
    """Return whether each record has its stated length and each batch ends with its last record."""
    if not np.array_equal(ends[last], ends_of_batches):
        return False
    begins = np.empty_like(ends)
    begins[1:] = ends[:-1]
    begins[0] = 0
    first = last - np.diff(last, prepend=-1) + 1
    begins[first] += V2_HEADER.size
    sizes = np.ones_like(lengths)
    longest = lengths.max()
    for limit in _LONGEST_OF:
        if longest > limit:
            sizes += lengths > limit
    # The last condition: no length takes more bytes than necessary. Kafka's clients never write such a length.
    return bool((begins + sizes + lengths == ends).all()) and bool((batches[begins + sizes - 1] < 0x80).all())


def _offsets(raws: Sequence[RawBatch], deltas: _Ints, counts: _Ints, last: _Ints) -> _Ints | None:
    """Return the offsets, or None if an offset is not higher than the previous one, or outside of its batch."""
    bases = np.array([raw.base_offset for raw in raws], np.int64)
    lasts = np.array([raw.last_offset for raw in raws], np.int64)
    offsets: _Ints = deltas + bases.repeat(counts)
    in_order = (offsets[1:] > offsets[:-1]).all()
    in_bounds = (offsets[last - counts + 1] >= bases).all() and (offsets[last] <= lasts).all()
    return offsets if in_order and in_bounds else None


def _timestamps(raws: Sequence[RawBatch], deltas: _Ints, counts: _Ints) -> _Ints:
    """Return the timestamps in milliseconds."""
    if raws[0].timestamp_type is TimestampType.LOG_APPEND_TIME:
        return np.array([raw.max_timestamp for raw in raws], np.int64).repeat(counts)
    timestamps: _Ints = deltas + np.array([raw.base_timestamp for raw in raws], np.int64).repeat(counts)
    return timestamps
