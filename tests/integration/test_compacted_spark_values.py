"""Values of all types, written by Spark: after a compaction Spark and pyarrow read the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from sarameya_handlers import ParquetTable, SparkSink, landed_files, read_landing
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.tables.settings import temporary_settings
from tests.handlers.kit import FakeSession, batch, claim_of
from tests.handlers.spark.kit import consume_in
from tests.integration.warm_spark import warm_spark

pytestmark = [
    pytest.mark.integration,
    # pyspark causes it whenever rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FAR = "case offset % 4 when 0 then timestamp'2423-01-01 00:00:00.123456' when 1 then timestamp'0001-01-01 00:00:00' "
FAR += "when 2 then timestamp'1969-12-31 23:59:59.999999' end"
VALUES = {
    "boolean": "offset % 2 = 0",
    "byte": "cast(-128 as byte)",
    "short": "cast(-32768 as short)",
    "long": "9223372036854775807",
    "float": "case offset % 3 when 0 then float('NaN') when 1 then -0.0f else float('-Infinity') end",
    "double": "case offset % 4 when 0 then double('NaN') when 1 then -0.0d when 2 then 5e-324d end",
    "short_decimal": "cast(-999.99 as decimal(5, 2))",
    "middle_decimal": "cast(123456789012345.678 as decimal(18, 3))",
    "long_decimal": "if(offset % 2 = 0, cast('9999999999999999999999999999.9999999999' as decimal(38, 10)), null)",
    "text": "if(offset % 2 = 0, 'ü€🙂', '')",
    "broken_text": "cast(x'ff00fe' as string)",
    "bytes": "if(offset % 2 = 0, x'00ff', x'')",
    "date": "if(offset % 2 = 0, date'0001-01-01', date'9999-12-31')",
    "timestamp_ntz": "timestamp_ntz'2423-01-01 00:00:00.123456'",
    "day_time": "interval '-100 23:59:59.999999' day to second",
    "year_month": "interval '-100-11' year to month",
    "array": "case offset % 3 when 0 then array(1, null) when 1 then array() end",
    "map": "case offset % 3 when 0 then map('k', cast(1.5 as decimal(20, 3)), 'n', null) when 1 then map() end",
    "struct": "case offset % 3 when 0 then named_struct('a', 1, 'b', named_struct('c', cast(null as int))) when 1 then "
    "named_struct('a', null, 'b', cast(null as struct<c: int>)) end",
    "nested": "array(map('k', array(named_struct('x', -0.0d, 'y', x'ff'), null)), null)",
    "no_null": "1",
}
KINDS: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "plain": (VALUES | {"at": FAR}, {}, True),
    "INT96": ({"at": FAR}, {"spark.sql.parquet.outputTimestampType": "INT96"}, False),
    "legacy": (
        {"array": VALUES["array"], "decimal": VALUES["short_decimal"]},
        {"spark.sql.parquet.writeLegacyFormat": "true"},
        False,
    ),
    "variant": ({"variant": """parse_json('{"a": [1, null]}')"""}, {}, False),
}
"""Kind -> columns, settings of the session that writes them, and whether their files are compacted."""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with warm_spark() as session:
        yield session


def by_spark(frame: Any) -> list[Any]:
    """Return values as text, since Python cannot represent all of them."""
    shown = [
        f"hex(`{name}`) as `{name}`" if kind in ("string", "binary") else f"cast(`{name}` as string) as `{name}`"
        for name, kind in frame.dtypes
    ]
    return [frame.schema.json(), *map(tuple, frame.orderBy("offset").selectExpr(*shown).collect())]


def by_arrow(root: Path) -> list[tuple[str, str, list[str]]]:
    rows = ds.dataset(root, format="parquet").to_table().sort_by("offset").combine_chunks()
    return [(field.name, str(field), [*map(repr, _bits(rows[field.name]).to_pylist())]) for field in rows.schema]


def _bits(column: pa.ChunkedArray) -> pa.Array:
    (array,), kind = column.chunks, column.type
    if pa.types.is_floating(kind):
        return pc.if_else(array.is_valid(), array.view(pa.int64() if kind.bit_width == 64 else pa.int32()), None)
    return array.view(pa.binary()) if pa.types.is_string(kind) else array


async def land(spark: Any, table: ParquetTable, offsets: range, columns: dict[str, str]) -> None:
    shown = ["offset", *(f"{value} as `{name}`" for name, value in columns.items())]
    async with SparkSink(table, transform=lambda frame: frame.selectExpr(*shown), spark=spark) as sink:
        await consume_in(sink, FakeSession(), claim_of([batch(offsets.start, len(offsets))]))


@pytest.mark.parametrize("kind", KINDS)
async def test_fault_52_sparks_values_are_compacted_exactly_or_refused(spark: Any, tmp_path: Path, kind: str) -> None:
    columns, settings, is_compacted = KINDS[kind]
    table = ParquetTable(tmp_path)
    with temporary_settings(spark, settings):
        for start in (0, 4):
            await land(spark, table, range(start, start + 4), columns)
    before = by_arrow(tmp_path), by_spark(read_landing(spark, tmp_path)), by_spark(spark.read.parquet(str(tmp_path)))
    compacted = compact(LocalStore(tmp_path), 10**6)
    assert (compacted.compaction is not None) == is_compacted, compacted.refused
    assert bool(compacted.refused) != is_compacted
    assert len(landed_files(tmp_path)) == (1 if is_compacted else 2)
    assert by_arrow(tmp_path) == before[0]
    assert by_spark(read_landing(spark, tmp_path)) == before[1]
    assert by_spark(spark.read.parquet(str(tmp_path))) == before[2]
