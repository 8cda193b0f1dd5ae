"""Independent readers that check a run: pyarrow, delta-rs and pyiceberg for tables, librdkafka for the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset

from tests.chaos.comparison import Row
from tests.integration.log_comparison import UNCOMMITTED, LogEnds, by_librdkafka
from tests.integration.real_kafka import RealKafka

COLUMNS = ("partition", "offset", "key", "value")


def log_rows(kafka: RealKafka, topic: str, partitions: int) -> list[Row]:
    """Return all records of a topic up to its present end, read by librdkafka."""
    read = by_librdkafka(kafka, topic, UNCOMMITTED, LogEnds.of(kafka, topic, partitions))
    return [Row(number, r.offset, r.key, r.value) for number, records in read.records.items() for r in records]


def parquet_rows(table: Path) -> Iterator[Row]:
    """Yield all rows of a plain directory, read by pyarrow."""
    if table.exists():
        yield from _rows(pyarrow.dataset.dataset(table, format="parquet").to_table(columns=list(COLUMNS)))


def delta_rows(table: Path) -> Iterator[Row]:
    """Yield all rows of a Delta table, read by delta-rs."""
    from deltalake import DeltaTable

    if DeltaTable.is_deltatable(str(table)):
        yield from _rows(DeltaTable(table).to_pyarrow_table(columns=list(COLUMNS)))


def iceberg_rows(table: Path) -> Iterator[Row]:
    """Yield all rows of a table of an Iceberg Hadoop catalog, read by pyiceberg."""
    from pyiceberg.table import StaticTable

    hint = table / "metadata" / "version-hint.text"
    if hint.exists():
        metadata = table / "metadata" / f"v{hint.read_text().strip()}.metadata.json"
        yield from _rows(StaticTable.from_metadata(str(metadata)).scan(selected_fields=COLUMNS).to_arrow())


READERS: Mapping[str, Any] = {"parquet": parquet_rows, "delta": delta_rows, "iceberg": iceberg_rows}


def _rows(table: Any) -> Iterator[Row]:
    yield from (Row(*values) for values in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))
