"""A frame's columns and a table's partitions, as Iceberg's SQL has them. No Spark runs."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.iceberg.schema import (
    create_table,
    missing_columns,
    partition_values,
    partitioning,
    same_partitioning,
)

NAME = TableName.of("ice.db.orders")


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


VARIANT = VariantType()


@pytest.mark.parametrize(
    ("kind", "is_third"),
    [
        (VARIANT, True),
        (ArrayType(VARIANT), True),
        (MapType(StringType(), VARIANT), True),
        (struct(n=IntegerType(), doc=VARIANT), True),
        (StringType(), False),
        (struct(variant=IntegerType(), more=StringType()), False),
    ],
    ids=str,
)
def test_table_with_a_variant_has_version_3(kind: DataType, is_third: bool) -> None:
    statement = create_table(NAME, struct(variant=kind), (), {})
    assert ("'format-version' = '3'" in statement) is is_third


def test_created_table_has_nullable_columns_and_partitions() -> None:
    schema = StructType([StructField("we ird", LongType(), nullable=False), StructField("ts", TimestampType())])
    assert create_table(NAME, schema, ("days(ts)", "we ird"), {"it's": "so"}) == (
        "CREATE TABLE IF NOT EXISTS `ice`.`db`.`orders` (`we ird` bigint, `ts` timestamp) USING iceberg "
        r"PARTITIONED BY (days(ts), `we ird`) TBLPROPERTIES ('it\'s' = 'so')"
    )
    assert "PARTITIONED" not in create_table(NAME, schema, (), {"a": "b"})


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        (struct(a=LongType()), []),
        (struct(A=LongType()), []),
        (struct(a=LongType(), more=BinaryType()), [("`more`", "binary")]),
        (struct(s=struct(x=IntegerType(), y=struct(z=StringType()))), [("`s`.`y`", "struct<`z`: string>")]),
        (struct(l=ArrayType(struct(x=IntegerType(), w=LongType()))), [("`l`.`element`.`w`", "bigint")]),
        (struct(m=MapType(StringType(), struct(v=LongType()))), [("`m`.`value`.`v`", "bigint")]),
        (struct(a=struct(x=LongType())), []),  # another type, which is not changed
    ],
)
def test_missing_columns_and_fields_are_named(rows: StructType, missing: list[tuple[str, str]]) -> None:
    table = struct(
        a=LongType(),
        s=struct(x=IntegerType()),
        l=ArrayType(struct(x=IntegerType())),
        m=MapType(StringType(), struct(x=IntegerType())),
    )
    assert list(missing_columns(rows, table)) == missing


def test_partitioning_is_parsed_from_columns() -> None:
    described = [
        ("a", "bigint", None),
        ("topic", "string", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("topic", "string", None),
        ("a", "bigint", None),
    ]
    assert partitioning(described) == ("`topic`", "`a`")
    assert partitioning(described[:2]) == ()


def test_partitioning_is_parsed_from_transforms() -> None:
    described = [
        ("we ird", "bigint", None),
        ("", "", ""),
        ("# Partitioning", "", ""),
        ("Part 0", "days(ts)", ""),
        ("Part 1", "bucket(4, `we ird`)", ""),
        ("", "", ""),
        ("# Metadata Columns", "", ""),
        ("_spec_id", "int", ""),
    ]
    assert partitioning(described) == ("days(ts)", "bucket(4, `we ird`)")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("days(ts)", "topic"), ("days(ts)", "`topic`"), True),
        (("day( ts )",), ("days(ts)",), True),
        (("bucket(4,`id`)",), ("bucket(4, id)",), True),
        (("date(ts)",), ("days(ts)",), True),
        (("City", "days(TS)"), ("city", "days(ts)"), True),
        (("hours(ts)",), ("days(ts)",), False),
        (("a", "b"), ("b", "a"), False),
        (("a",), (), False),
    ],
)
def test_partitionings_are_compared_by_meaning(one: tuple[str, ...], other: tuple[str, ...], same: bool) -> None:
    assert same_partitioning(one, other) is same


def test_partition_values_use_icebergs_functions() -> None:
    assert partition_values(NAME, ("day(ts)", "bucket(4, id)", "topic", "`or der`")) == [
        "`ice`.system.days(ts)",
        "`ice`.system.bucket(4, id)",
        "`topic`",
        "`or der`",
    ]
