"""Record batches -> Arrow columns, many batches at a time and without a Python object a record. Pure.

Where a record begins only the one before it tells. That walk is done by an AwkwardForth machine, a small compiled
machine made for reading columns out of binary formats, which sees to its bounds itself; what it has found is checked
all at once, by numpy. Whatever is not exactly as it should be is refused without a word about it: `records` then reads
batch by batch, and says what is wrong. Needs awkward-cpp, numpy and pyarrow (`sarameya[spark]`).
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
from sarameya.protocol.batches import V2_HEADER, RawBatch

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

_LONGEST_OF = (1 << 6) - 1, (1 << 13) - 1, (1 << 20) - 1, (1 << 27) - 1
"""The largest length that a zigzag varint of 1, 2, 3, 4 bytes has room for."""
_OUTPUTS = 4096
"""How many of each there is room for to begin with; it doubles. More is let go and asked for anew each time."""


def walks() -> list[RecordWalk]:
    """The leanest first: each reads what the one before it refuses for having keys, or headers."""
    return [RecordWalk(keys=keys, headers=headers) for keys, headers in ((False, False), (True, False), (True, True))]


class RecordWalk:
    """Reads batches of records that may have `keys`, `headers`, or else have none. One thread at a time may use it."""

    def __init__(self, *, keys: bool, headers: bool) -> None:
        self._keys, self._headers = keys, headers
        self._machine: Any = ForthMachine64(
            _program(keys, headers), output_initial_size=_OUTPUTS, output_resize_factor=2.0
        )

    def columns(
        self, raws: Sequence[RawBatch], plain: Sequence[memoryview], partition: TopicPartition
    ) -> MessageColumns | None:
        """The messages of v2 batches, at least one, alike in timestamp type and leader epoch; None if there is anything
        odd about any of them. `plain` are the batches without compression, CRCs checked."""
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
    """Reads all records of all batches.

    `fields` are of each record: length, attributes, timestamp delta, offset delta, and where there are no keys the
    length that the key would have; `ends` is where it ends. A negative length (null) reads no bytes. Each word in a
    record's path costs ten nanoseconds: so none is there for what is not.
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
    """The batches one behind the other: where they stand already if they do so there."""
    first, last = raws[0], raws[-1]
    if all(batch.obj is first.log for batch in plain) and sum(map(len, plain)) == last.end - first.start:
        return np.frombuffer(first.log, np.uint8, last.end - first.start, first.start)
    return np.frombuffer(b"".join(plain), np.uint8)


def _lengths_are_right(
    batches: npt.NDArray[np.uint8], lengths: _Ints, ends: _Ints, last: _Ints, ends_of_batches: _Ints
) -> bool:
    """Whether each record is as long as it says and each batch ends where its last record does."""
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
    # The last condition: the length is not written in more bytes than it needs, which none of Kafka's clients does.
    return bool((begins + sizes + lengths == ends).all()) and bool((batches[begins + sizes - 1] < 0x80).all())


def _offsets(raws: Sequence[RawBatch], deltas: _Ints, counts: _Ints, last: _Ints) -> _Ints | None:
    """The offsets, if each is higher than the one before and in its batch's bounds."""
    bases = np.array([raw.base_offset for raw in raws], np.int64)
    lasts = np.array([raw.last_offset for raw in raws], np.int64)
    offsets: _Ints = deltas + bases.repeat(counts)
    in_order = (offsets[1:] > offsets[:-1]).all()
    in_bounds = (offsets[last - counts + 1] >= bases).all() and (offsets[last] <= lasts).all()
    return offsets if in_order and in_bounds else None


def _timestamps(raws: Sequence[RawBatch], deltas: _Ints, counts: _Ints) -> _Ints:
    """Milliseconds."""
    if raws[0].timestamp_type is TimestampType.LOG_APPEND_TIME:
        return np.array([raw.max_timestamp for raw in raws], np.int64).repeat(counts)
    timestamps: _Ints = deltas + np.array([raw.base_timestamp for raw in raws], np.int64).repeat(counts)
    return timestamps
