"""Counts rows by span without Spark: reads Arrow batches, and keeps one bit for each offset. Blocking.

A billion rows take 125 MB, whatever their order and the number of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sarameya_handlers.audit.facts import Count, Counts, Span, Stray
from sarameya_handlers.audit.verify.lineage import LINEAGE, why_unknown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_BLOCK = 16
"""Offsets are kept in blocks of two to this power: 8 KiB each."""


def count_batches(batches: Iterable[pa.RecordBatch], spans: Iterable[Span]) -> Counts | str:
    """Return the counts of rows by their columns topic, partition and offset.

    Returns:
        A string if the columns do not identify the record of a row: the reason.
    """
    by_partition: dict[tuple[str, int], list[Span]] = {}
    for span in spans:
        by_partition.setdefault((span.topic, span.partition), []).append(span)
    partitions = {key: _Partition(found) for key, found in by_partition.items()}
    strays: dict[tuple[str, int], _StrayRows] = {}
    incomplete = 0
    for batch in batches:
        if reason := _why_uncountable(batch.schema):
            return reason
        known = _complete(batch)
        incomplete += batch.num_rows - known.num_rows
        for topic, partition, offsets in _split(known):
            if (topic, partition) in partitions:
                offsets = partitions[topic, partition].add(offsets)
            if len(offsets):
                strays.setdefault((topic, partition), _StrayRows()).add(offsets)
    found = [Stray(*key, run.rows, run.first, run.last) for key, run in sorted(strays.items())]
    if incomplete:
        found.append(Stray(None, None, incomplete, None, None))
    return Counts({span: count for rows in partitions.values() for span, count in rows.counts()}, found)


def _why_uncountable(schema: pa.Schema) -> str:
    from pyarrow import types

    def is_text(kind: pa.DataType) -> bool:
        return is_text(kind.value_type) if types.is_dictionary(kind) else types.is_string(kind)

    right = {"topic": is_text, "partition": types.is_integer, "offset": types.is_integer}
    return why_unknown({name: right[name](schema.field(name).type) for name in LINEAGE if name in schema.names})


def _complete(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows without nulls."""
    import pyarrow.compute as pc

    columns = [batch.column(name) for name in LINEAGE]
    if not any(column.null_count for column in columns):
        return batch
    valid = pc.is_valid(columns[0])
    for column in columns[1:]:
        valid = pc.and_(valid, pc.is_valid(column))
    return batch.filter(valid)


def _split(batch: pa.RecordBatch) -> Iterator[tuple[str, int, np.ndarray[Any, Any]]]:
    """Yield the sorted offsets of each partition."""
    import numpy as np
    import pyarrow as pa

    if not batch.num_rows:
        return
    topics = batch.column("topic")
    if not pa.types.is_dictionary(topics.type):
        topics = topics.dictionary_encode()
    names = topics.dictionary.to_pylist()
    of_topic = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    of_partition = batch.column("partition").to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = batch.column("offset").to_numpy(zero_copy_only=False).astype(np.int64)
    places = np.stack([of_topic, of_partition])
    # Nearly every batch has only one partition.
    if (places == places[:, :1]).all():
        yield names[int(of_topic[0])], int(of_partition[0]), np.sort(offsets)
        return
    for topic, partition in np.unique(places, axis=1).T:
        chosen = (of_topic == topic) & (of_partition == partition)
        yield names[int(topic)], int(partition), np.sort(offsets[chosen])


class _StrayRows:
    """Rows outside of all spans."""

    def __init__(self) -> None:
        self.rows = 0
        self.first: int | None = None
        self.last: int | None = None

    def add(self, offsets: np.ndarray[Any, Any]) -> None:
        first, last = int(offsets[0]), int(offsets[-1])
        self.rows += len(offsets)
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


class _Partition:
    """Counts of one partition's spans, which are in order and do not overlap."""

    def __init__(self, spans: list[Span]) -> None:
        import numpy as np

        self._spans = sorted(spans, key=lambda span: span.start)
        self._starts = np.array([span.start for span in self._spans], dtype=np.int64)
        self._stops = np.array([span.stop for span in self._spans], dtype=np.int64)
        self._counts: dict[int, Count] = {}
        self._seen: dict[int, np.ndarray[Any, Any]] = {}
        """Blocks of bits, by the upper bits of an offset."""

    def add(self, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Count sorted offsets. Return those outside of all spans."""
        import numpy as np

        places = np.searchsorted(self._starts, offsets, side="right") - 1
        inside = (places >= 0) & (offsets < self._stops[places])
        if not inside.any():
            return offsets
        places, mine = places[inside], offsets[inside]
        new = self._new(mine)
        # The offsets are sorted, so those of a span are a slice.
        indices, begins = np.unique(places, return_index=True)
        ends = np.append(begins[1:], len(mine))
        for index, begin, end in zip(indices.tolist(), begins.tolist(), ends.tolist(), strict=True):
            here = Count(end - begin, int(new[begin:end].sum()), int(mine[begin]), int(mine[end - 1]))
            self._counts[index] = _sum(self._counts[index], here) if index in self._counts else here
        return offsets[~inside]

    def counts(self) -> Iterator[tuple[Span, Count]]:
        for index, count in sorted(self._counts.items()):
            yield self._spans[index], count

    def _new(self, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return for each of these sorted offsets whether it is new, and remember it."""
        import numpy as np

        new = np.ones(len(offsets), dtype=bool)
        new[1:] = offsets[1:] != offsets[:-1]
        blocks = offsets >> _BLOCK
        numbers, begins = np.unique(blocks, return_index=True)
        ends = np.append(begins[1:], len(offsets))
        for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends.tolist(), strict=True):
            within = offsets[begin:end] & ((1 << _BLOCK) - 1)
            seen = np.zeros(1 << _BLOCK, dtype=np.uint8)
            if number in self._seen:
                seen = np.unpackbits(self._seen[number])
                new[begin:end] &= seen[within] == 0
            seen[within] = 1
            self._seen[number] = np.packbits(seen)
        return new


def _sum(one: Count, other: Count) -> Count:
    return Count(
        one.rows + other.rows,
        one.offsets + other.offsets,
        min(one.first, other.first),
        max(one.last, other.last),
    )
