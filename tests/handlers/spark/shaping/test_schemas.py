from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sarameya_handlers.spark.iceberg.schema import widens, wider_columns
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError
from sarameya_handlers.spark.shaping.schemas import Column, Differences, TypeChange, compare
from sarameya_handlers.spark.tables.expressions import type_name


def struct(required: dict[str, DataType] | None = None, **nullable: DataType) -> StructType:
    fields = [StructField(name, kind, False) for name, kind in (required or {}).items()]
    return StructType(fields + [StructField(name, kind) for name, kind in nullable.items()])


SOME = struct(id=LongType(), name=StringType())


def test_order_and_case_of_columns_do_not_matter() -> None:
    assert not compare(SOME, struct(NAME=StringType(), Id=LongType()))


def test_added_and_missing_columns_have_their_types() -> None:
    assert compare(struct(id=LongType(), price=DoubleType()), SOME) == Differences(
        added=(Column("price", "double"),), missing=(Column("name", "string"),)
    )


def test_nested_differences_have_their_paths() -> None:
    def nested(leaf: StructType) -> StructType:
        return struct(value=struct(tags=ArrayType(leaf), by=MapType(StringType(), leaf)))

    assert compare(
        nested(struct(a=LongType(), b=LongType())), nested(struct(a=StringType(), c=LongType()))
    ) == Differences(
        added=(Column("value.tags.element.b", "bigint"), Column("value.by.value.b", "bigint")),
        missing=(Column("value.tags.element.c", "bigint"), Column("value.by.value.c", "bigint")),
        changed=(
            TypeChange("value.tags.element.a", "bigint", "string"),
            TypeChange("value.by.value.a", "bigint", "string"),
        ),
    )


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        (IntegerType(), LongType()),
        (ShortType(), IntegerType()),
        (FloatType(), DoubleType()),
        (IntegerType(), DoubleType()),
        (IntegerType(), DecimalType(10, 0)),
        (DecimalType(10, 2), DecimalType(12, 4)),
        (NullType(), StringType()),
    ],
)
def test_narrower_type_is_widened(rows: DataType, table: DataType) -> None:
    assert [change.path for change in compare(struct(x=rows), struct(x=table)).widened] == ["x"]


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        (LongType(), DoubleType()),
        (IntegerType(), FloatType()),
        (IntegerType(), DecimalType(9, 0)),
        (LongType(), DecimalType(20, 1)),
        (DecimalType(10, 2), DecimalType(10, 3)),
        (DecimalType(10, 2), DecimalType(20, 1)),
        (DoubleType(), DecimalType(38, 10)),
        (LongType(), StringType()),
        (TimestampType(), TimestampNTZType()),
        (SOME, StringType()),
        (ArrayType(LongType()), LongType()),
    ],
)
def test_lossy_type_is_a_change(rows: DataType, table: DataType) -> None:
    differences = compare(struct(x=rows), struct(x=table))
    assert differences.changed == (TypeChange("x", rows.simpleString(), table.simpleString()),)
    assert differences.problem(evolve_schema=True) == (
        f"the types of x ({rows.simpleString()} in the rows, {table.simpleString()} in the table) are incompatible: "
        "cast them in the transform, or change the table's types"
    )


WIDER = [
    (LongType(), IntegerType()),
    (DoubleType(), FloatType()),
    (DoubleType(), IntegerType()),
    (DecimalType(12, 2), DecimalType(10, 2)),
]


@pytest.mark.parametrize(("rows", "table"), WIDER)
def test_wider_type_needs_a_table_that_widens_and_evolution(rows: DataType, table: DataType) -> None:
    differences = compare(struct(x=rows), struct(x=table))
    change = TypeChange("x", rows.simpleString(), table.simpleString())
    assert differences == Differences(wider=(change,))
    assert "are incompatible: cast them" in (differences.problem(evolve_schema=True) or "")
    assert differences.problem(evolve_schema=True, widens=lambda found: found == change) is None
    assert differences.problem(evolve_schema=False, widens=lambda found: found == change) == (
        f"the types of {change} are wider than the table's: cast them in the transform, widen the table's, "
        "or set evolve_schema = true"
    )


@pytest.mark.parametrize(("rows", "table"), WIDER)
def test_iceberg_widens_what_its_specification_allows(rows: DataType, table: DataType) -> None:
    [change] = compare(struct(x=rows), struct(x=table)).wider
    assert widens(change) == (change.table != "int" or change.rows == "bigint")
    [again] = wider_columns(struct(a=ArrayType(struct(x=rows))), struct(A=ArrayType(struct(X=table))))
    assert again == ("`A`.`element`.`X`", type_name(rows))


def test_key_of_a_map_is_never_widened() -> None:
    wide, narrow = (struct(x=MapType(kind, kind)) for kind in (LongType(), IntegerType()))
    differences = compare(wide, narrow)
    assert differences.changed == (TypeChange("x.key", "bigint", "int"),)
    assert differences.wider == (TypeChange("x.value", "bigint", "int"),)


def test_forbidden_nulls_are_no_problem_until_they_occur() -> None:
    differences = compare(SOME, struct({"id": LongType()}, name=StringType()))
    assert differences == Differences(nulls=(Column("id", "bigint", nullable=False),))
    assert differences.problem(evolve_schema=False) is None


def test_missing_column_is_a_problem_if_not_nullable() -> None:
    assert compare(struct(id=LongType()), SOME).problem(evolve_schema=False) is None
    problem = compare(struct(id=LongType()), struct({"name": StringType()}, id=LongType())).problem(evolve_schema=True)
    assert problem == "the rows have no name string not null: add it in the transform, or make it nullable in the table"


def test_added_column_is_a_problem_unless_evolving() -> None:
    differences = compare(SOME, struct(id=LongType()))
    differences.require("parquet:/data", evolve_schema=True)
    with pytest.raises(SchemaMismatchError) as raised:
        differences.require("parquet:/data", evolve_schema=False)
    assert str(raised.value) == (
        "the rows do not fit parquet:/data: the table has no name string: "
        "add it to the table, leave it out in the transform, or set evolve_schema = true"
    )
    assert not raised.value.retriable


def test_many_columns_are_counted() -> None:
    differences = compare(struct(**{f"c{n}": LongType() for n in range(15)}), struct())
    assert "c9 bigint and 5 more:" in (differences.problem(evolve_schema=False) or "")


def test_duplicate_column_names_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"two columns are called value\.A"):
        compare(struct(value=struct(a=LongType(), A=LongType())), struct(value=struct(a=LongType())))
