"""The comparison of a table with the log that was landed into it: each record exactly once. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_MAX_EXAMPLES = 5


class Row(NamedTuple):
    """A record of the log, or a row of a table."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def differences(log: Iterable[Row], table: Iterable[Row], ends: Mapping[int, int]) -> list[str]:
    """Return the differences between a table and its log; empty if the table holds each record once.

    Args:
        log: all records of the log, read after the table.
        table: all rows of the table.
        ends: the offset per partition below which every record must be in the table. Later records may be there.
    """
    records = {(row.partition, row.offset): row for row in log}
    rows = list(table)
    seen = Counter((row.partition, row.offset) for row in rows)
    found = {
        "missing": [at for at in records if at[1] < ends.get(at[0], 0) and at not in seen],
        "more than once": [at for at, times in seen.items() if times > 1],
        "not in the log": [at for at in seen if at not in records],
        "with another key or value": [
            at for row in rows if (at := (row.partition, row.offset)) in records and records[at] != row
        ],
    }
    return [f"{len(offsets)} rows {what}: {_examples(offsets)}" for what, offsets in found.items() if offsets]


def gaps(log: Iterable[Row], ends: Mapping[int, int]) -> list[str]:
    """Return the errors of the log itself: acknowledged records that are lost, records twice or out of order.

    Args:
        log: all records of the log. Each value ends in the producer's sequence number of its partition.
        ends: the log end per partition that the brokers have acknowledged to the producer.
    """
    sequences: dict[int, list[int]] = {}
    for row in log:
        sequences.setdefault(row.partition, []).append(sequence_of(row.value or b""))
    found = []
    for partition, numbers in sorted(sequences.items()):
        if sorted(set(numbers)) != numbers:
            found.append(f"the log of partition {partition} has records twice or out of order")
    for partition, end in sorted(ends.items()):
        if len(sequences.get(partition, ())) < end:
            found.append(f"the log of partition {partition} has lost acknowledged records")
    return found


def value_of(sequence: int, size: int) -> bytes:
    """Return a value of about `size` bytes that ends in the sequence number."""
    number = b" %d" % sequence
    return b"x" * max(size - len(number), 0) + number


def sequence_of(value: bytes) -> int:
    return int(value.rpartition(b" ")[2])


def _examples(offsets: list[tuple[int, int]]) -> str:
    first = ", ".join(f"{partition}@{offset}" for partition, offset in sorted(offsets)[:_MAX_EXAMPLES])
    return first + (" ..." if len(offsets) > _MAX_EXAMPLES else "")
