from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from sarameya.arrow import kafka_schema
from sarameya_handlers import LandingError
from sarameya_handlers.spark.tables.columns import arrow_types, holds, merged, nullable, of_arrow


def columns(nulls: bool = True, **fields: DataType) -> dict[str, Any]:
    made = StructType()
    for name, kind in fields.items():
        made.add(name, kind, nulls)
    return dict(made.jsonValue())


def struct(**fields: DataType) -> StructType:
    return StructType.fromJson(columns(**fields))


ALL = pa.schema(
    [
        ("bool", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(20, 3)),
        ("tags", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int64())])))),
    ]
)


@pytest.mark.parametrize("schema", [kafka_schema(), ALL], ids=["kafka", "all types"])
def test_arrow_schema_has_the_columns_spark_infers(schema: pa.Schema) -> None:
    assert of_arrow(schema) == nullable(from_arrow_schema(schema, prefer_timestamp_ntz=True).jsonValue())


def test_type_unknown_to_spark_is_refused_by_column() -> None:
    with pytest.raises(LandingError, match=r"column x is time64\[us\], a type that Spark does not have"):
        of_arrow(pa.schema([("s", pa.struct([("x", pa.time64("us"))]))]))


def test_nested_columns_become_nullable() -> None:
    inner = StructType().add("x", LongType(), False)
    strict = StructType().add("a", ArrayType(inner, False), False).add("m", MapType(StringType(), inner, False), False)
    loose = StructType().add("x", LongType())
    expected = StructType().add("a", ArrayType(loose)).add("m", MapType(StringType(), loose))
    assert StructType.fromJson(nullable(strict.jsonValue())) == expected


TABLE = columns(id=LongType(), at=ArrayType(struct(x=LongType(), y=StringType())), m=MapType(StringType(), LongType()))


@pytest.mark.parametrize(
    ("rows", "fits"),
    [
        (TABLE, True),
        (columns(m=MapType(StringType(), LongType()), id=LongType()), True),
        (columns(at=ArrayType(struct(y=StringType()))), True),
        (columns(at=ArrayType(struct(y=LongType()))), False),
        (columns(at=ArrayType(struct(z=StringType()))), False),
        (columns(id=IntegerType()), False),
        (columns(ID=LongType()), False),
        (columns(other=LongType()), False),
        (columns(m=MapType(StringType(), IntegerType())), False),
        (columns(m=struct(x=LongType())), False),
    ],
)
def test_rows_fit_only_the_columns_of_their_table(rows: dict[str, Any], fits: bool) -> None:
    assert holds(TABLE, rows) is fits


def test_merge_appends_new_columns_to_those_of_the_table() -> None:
    rows = columns(
        New=StringType(), ID=IntegerType(), at=ArrayType(struct(z=LongType(), X=IntegerType())), m=StringType()
    )
    both = merged(TABLE, rows)
    assert both == columns(
        id=LongType(),
        at=ArrayType(struct(x=LongType(), y=StringType(), z=LongType())),
        m=MapType(StringType(), LongType()),
        New=StringType(),
    )
    assert merged(both, rows) == both
    assert holds(both, TABLE)


def test_arrow_types_cover_plain_columns_only() -> None:
    assert arrow_types(TABLE) == {"id": pa.int64()}
    assert arrow_types(of_arrow(ALL)) == {field.name: field.type for field in list(ALL)[:10]}
