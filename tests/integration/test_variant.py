"""JSON without a schema: a VARIANT column in each format, in this process and behind Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sarameya.arrow import kafka_schema
from sarameya_handlers import DeltaTable, IcebergTable, ParquetTable, read_landing
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.poison.poison_search import find_poison
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sink.flush import flush
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import PendingLink, Table
from tests.integration.iceberg_stage import new_name
from tests.integration.lake_stage import EITHER, either

pytestmark = [
    pytest.mark.integration,
    # py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PARSED = Shaping(transform_sql="select offset, parse_json(cast(value as string)) as doc from batch")
DOCUMENTS: list[Any] = [{"a": 1}, {"a": "text", "b": [1, None]}, [True], 2.5, "x", None]


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    with either(request, compiles=True) as session:
        yield session


def pending(number: int, values: list[bytes]) -> PendingLink:
    start = (number - 1) * len(values)
    rows = [
        {"value": value, "topic": "orders", "partition": 0, "offset": start + offset, "timestampType": 0}
        for offset, value in enumerate(values)
    ]
    link = Link(
        key=ChainKey("lake", "orders", 0),
        number=number,
        from_offset=start,
        to_offset=start + len(values),
        attempt=f"{number:032x}",
        origin=Origin(group="g"),
        records=len(values),
    )
    return PendingLink(link, pa.Table.from_pylist(rows, kafka_schema()))


def table_of(kind: str, directory: Path) -> Table:
    match kind:
        case "parquet":
            return ParquetTable(directory / "orders")
        case "delta":
            return DeltaTable(directory / "orders")
        case _:
            return IcebergTable(new_name())


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_documents_of_any_shape_are_read_back(spark: Any, tmp_path: Path, kind: str) -> None:
    table = table_of(kind, tmp_path)
    table.open(spark)
    values = [json.dumps(document).encode() for document in DOCUMENTS]
    for number in (1, 2):
        one = pending(number, values)
        flush(spark, lambda: None, pending=[one], table=table, shape=PARSED, on_phase=lambda phase, landings: None)
        assert table.links(spark, one.link.key, number)[-1].attempt == one.link.attempt
    frame = read_landing(spark, table.path) if isinstance(table, ParquetTable) else table.read(spark)
    assert dict(frame.dtypes)["doc"] == "variant"
    rows = frame.selectExpr("offset", "to_json(doc) as doc").orderBy("offset").collect()
    assert [json.loads(row.doc) for row in rows] == DOCUMENTS * 2
    assert [row.offset for row in rows] == list(range(2 * len(DOCUMENTS)))


def test_record_that_is_no_json_is_found(spark: Any, tmp_path: Path) -> None:
    values = [b'{"a": 1}', b"no json", b"2"]
    poison = find_poison(spark, lambda: None, pending=pending(1, values), staging=Staging(tmp_path), shape=PARSED)
    assert list(poison.bad) == [1]
    assert "MALFORMED_RECORD_IN_PARSING" in poison.bad[1]
