"""A compaction keeps each value bit for bit, for readers other than pyarrow too, or leaves the file unchanged."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya.service.cli import main
from sarameya_handlers.landing.directory import parquet_merge
from sarameya_handlers.landing.directory.compaction import Compacted, compact
from sarameya_handlers.landing.directory.data_files import DataFiles, directory_of
from sarameya_handlers.landing.directory.manifests import Manifest
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.landing.stores.local import LocalStore
from tests.handlers.audit.fake_table import links_of

KEY = ChainKey("sarameya", "orders", 0)
FAR = [datetime(2423, 1, 1, 0, 0, 0, 123456), datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None]
NANS = np.array([0x7FF8000000000001, 0xFFF8000000000002, 0x7FF0000000000001, 0x8000000000000000], np.uint64)
SMALL_NANS = np.array([0x7FC00001, 0xFFC00002, 0x7F800001, 0x80000000], np.uint32)
NESTED = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.decimal128(20, 3))), ("t", pa.timestamp("ns"))]))

KEPT: dict[str, pa.Array] = {
    "microseconds of far years": pa.array(FAR, pa.timestamp("us", "UTC")),
    "milliseconds": pa.array([2**52, -(2**52), 0, None], pa.timestamp("ms")),
    "nanoseconds": pa.array([2**63 - 1, -(2**63), 1, None], pa.timestamp("ns")),
    "times": pa.array([1, 86_399_999_999_999, 0, None], pa.time64("ns")),
    "dates": pa.array([date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), None]),
    "short decimals": pa.array([Decimal("-999.99"), Decimal("0.01"), None, Decimal(0)], pa.decimal128(5, 2)),
    "decimals": pa.array([Decimal("1e17"), Decimal("-0.1"), None, Decimal(0)], pa.decimal128(38, 10)),
    "long decimals": pa.array([Decimal("9" * 76), Decimal(-1), None, Decimal(0)], pa.decimal256(76, 0)),
    "doubles": pa.Array.from_buffers(pa.float64(), 4, [None, pa.py_buffer(NANS)]),
    "floats": pa.Array.from_buffers(pa.float32(), 4, [None, pa.py_buffer(SMALL_NANS)]),
    "texts that are not UTF-8": pa.array([b"\xff", b"", None, b"a"]).view(pa.string()),
    "dictionaries": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "nested": pa.array([[{"m": [("k", Decimal("1.5"))], "t": 1}], [], None, [None]], NESTED),
    "unsigned": pa.array([2**64 - 1, 0, None, 1], pa.uint64()),
    "large": pa.array(["x", "", None, "y"], pa.large_string()),
}


def append(root: Path, table: pa.Table, **options: Any) -> None:
    """Land these rows as the next link of a chain, in a file of their own."""
    files = DataFiles(LocalStore(root))
    head = files.manifests.head(KEY)
    start = head.link.to_offset if head else 0
    link = links_of(KEY, start + table.num_rows, start=start)[0]
    link = attrs.evolve(link, number=head.link.number + 1 if head else 1, attempt=f"{start:032x}")
    directory = root / directory_of(link)
    directory.mkdir(parents=True)
    pq.write_table(table, directory / "x.parquet", **options)
    written = files.settle(link, lambda number: f"part-{start:06}.parquet", lambda file: table.num_rows)
    manifest = Manifest(link, written)
    assert files.manifests.put(manifest)
    files.publish_link(manifest)


def visible(root: Path) -> list[Path]:
    return sorted(root.glob("*.parquet"))


def columns_of(file: Path) -> str:
    """Return the columns of a file in Parquet's own types."""
    return str(pq.ParquetFile(file).schema).partition("\n")[2].partition("\n")[2]


def bits(array: pa.ChunkedArray) -> list[Any]:
    """Return the values in a comparable form, also NaN and text that is not UTF-8."""
    whole = array.combine_chunks()
    if pa.types.is_floating(whole.type):
        return whole.view(pa.uint64() if whole.type.bit_width == 64 else pa.uint32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_string(whole.type):
        return whole.view(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(whole.type) or pa.types.is_time(whole.type):
        return whole.view(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return whole.to_pylist() if not pa.types.is_nested(whole.type) else [str(value) for value in whole]


@pytest.mark.parametrize("decimals", [False, True], ids=["decimals as bytes", "decimals as integers"])
@pytest.mark.parametrize("kind", KEPT)
def test_fault_52_compaction_keeps_values_bit_for_bit(kind: str, decimals: bool, tmp_path: Path) -> None:
    field = pa.field("x", KEPT[kind].type, metadata={b"PARQUET:field_id": b"7", b"unit": b"parsec"})
    table = pa.table([KEPT[kind]], pa.schema([field], metadata={b"said": b"of the file"}))
    for _ in range(2):
        append(tmp_path, table, store_decimal_as_integer=decimals)
    before = visible(tmp_path)
    schema, columns = pq.read_schema(before[0]), columns_of(before[0])
    values = [value for file in before for value in bits(pq.read_table(file)["x"])]
    assert compact(LocalStore(tmp_path), 10**6).compaction is not None
    [file] = visible(tmp_path)
    assert pq.read_schema(file).equals(schema, check_metadata=True)
    assert columns_of(file) == columns
    assert bits(pq.read_table(file)["x"]) == values


def test_fault_52_duckdb_and_polars_read_the_same_values(tmp_path: Path) -> None:
    others = {name: KEPT[name] for name in KEPT if name not in ("texts that are not UTF-8", "long decimals")}
    for _ in range(2):
        append(tmp_path, pa.table(others))
    query = f"select * from read_parquet('{tmp_path}/*.parquet')"
    before = duckdb.sql(query).fetchall(), polars.read_parquet(tmp_path / "*.parquet")
    assert compact(LocalStore(tmp_path), 10**6).compaction is not None
    assert len(visible(tmp_path)) == 1
    assert repr(duckdb.sql(query).fetchall()) == repr(before[0])
    assert polars.read_parquet(tmp_path / "*.parquet").equals(before[1])


def test_fault_52_int96_is_unchanged_and_the_reason_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        append(tmp_path, pa.table({"at": pa.array(FAR, pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    before = [file.read_bytes() for file in visible(tmp_path)]
    assert main(["compact", str(tmp_path), "--quiet"]) == 0
    assert [file.read_bytes() for file in visible(tmp_path)] == before
    out = capsys.readouterr().out
    assert "2 small files left as they are, to keep every value: pyarrow would not write column 'at' as it is" in out
    assert "int96" in out


def test_files_with_different_metadata_stay_apart(tmp_path: Path) -> None:
    """Metadata of the file or of a column may define how to read its values: a calendar, a unit, a type."""
    for metadata in ({}, {b"org.apache.spark.legacyDateTime": b""}):
        for unit in (b"m", b"s"):
            for _ in range(2):
                schema = pa.schema([pa.field("x", pa.int64(), metadata={b"unit": unit})], metadata=metadata)
                append(tmp_path, pa.table({"x": [1]}, schema))
    assert compact(LocalStore(tmp_path), 10**6).compaction is not None
    assert len(visible(tmp_path)) == 4
    assert compact(LocalStore(tmp_path), 10**6) == Compacted(None)


def test_files_of_alternating_schemas_become_one_per_schema(tmp_path: Path) -> None:
    for n in range(20):
        append(tmp_path, pa.table({"x": [1] if n % 2 else ["a"]}))
    size = max(file.stat().st_size for file in visible(tmp_path))
    compact(LocalStore(tmp_path), 11 * size)
    assert len(visible(tmp_path)) == 2


def test_row_groups_have_the_configured_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_merge, "ROW_GROUP_ROWS", 250)
    for n in range(100):
        append(tmp_path, pa.table({"x": range(10 * n, 10 * n + 10)}))
    compact(LocalStore(tmp_path), 10**6)
    [file] = visible(tmp_path)
    metadata = pq.read_metadata(file)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [250] * 4
    assert pq.read_table(file)["x"].to_pylist() == list(range(1000))


def test_row_groups_of_wide_rows_are_limited_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_merge, "ROW_GROUP_BYTES", 10_000)
    for _ in range(10):
        append(tmp_path, pa.table({"x": [bytes(1_000)] * 4}))
    compact(LocalStore(tmp_path), 10**6)
    metadata = pq.read_metadata(visible(tmp_path)[0])
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [8] * 5
