"""The comparison of a table with the log that it was landed from: each record exactly once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_SHOWN = 5


class Row(NamedTuple):
    """A record, as the log or a table has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def differences(log: Iterable[Row], table: Iterable[Row], ends: Mapping[int, int]) -> list[str]:
    """Describe what keeps the table from holding each record of the log once; empty if nothing does.

    Args:
        log: all records of the log, read after the table.
        table: all rows of the table.
        ends: the offset per partition below which every record must be in the table. What lies beyond may be there.
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
    return [f"{len(places)} rows {what}: {_shown(places)}" for what, places in found.items() if places]


def gaps(log: Iterable[Row], ends: Mapping[int, int]) -> list[str]:
    """Describe what the log itself lacks of what the producer was told to be delivered, or has twice.

    Values end in the producer's sequence number of their partition.
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
    """A value of about this many bytes that ends in the sequence number."""
    number = b" %d" % sequence
    return b"x" * max(size - len(number), 0) + number


def sequence_of(value: bytes) -> int:
    return int(value.rpartition(b" ")[2])


def _shown(places: list[tuple[int, int]]) -> str:
    first = ", ".join(f"{partition}@{offset}" for partition, offset in sorted(places)[:_SHOWN])
    return first + (" ..." if len(places) > _SHOWN else "")
