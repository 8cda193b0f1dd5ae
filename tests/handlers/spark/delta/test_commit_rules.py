"""Tables and rows that are committed without Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.delta.commit_rules import CommitRules

OFFSET, TOPIC = StructField("offset", LongType()), StructField("topic", StringType())


def columns(*fields: StructField) -> dict[str, Any]:
    schema: dict[str, Any] = StructType(list(fields)).jsonValue()
    return schema


def rules(*fields: StructField, **detail: Any) -> CommitRules | None:
    plain: dict[str, Any] = {"location": "file:///t", "features": ("appendOnly", "invariants")}
    return CommitRules.of(TableDetail(**{**plain, **detail}), columns(*(fields or (OFFSET, TOPIC))))


def rules_with(**properties: str) -> CommitRules:
    made = rules(properties={name.replace("_", "."): text for name, text in properties.items()})
    assert made is not None
    return made


def test_checkpoint_interval_defaults_to_100() -> None:
    assert rules_with().checkpoint_interval == 100
    assert rules_with(delta_checkpointInterval="7", mine="x").checkpoint_interval == 7


def test_indexed_columns_default_to_32() -> None:
    assert rules_with().indexed == 32
    assert rules_with(delta_dataSkippingNumIndexedCols="-1").indexed == -1


def inside(field: StructField) -> StructField:
    return StructField("inner", ArrayType(StructType([field])))


@pytest.mark.parametrize(
    "detail",
    [
        {"partition_columns": ("topic",)},
        {"features": ("appendOnly", "invariants", "rowTracking")},
        {"properties": {"delta.constraints.few": "offset < 5"}},
        {"properties": {"delta.checkpointInterval": "2"}},
        {"properties": {"delta.compatibility.symlinkFormatManifest.enabled": "true"}},
    ],
    ids=["partitions", "feature", "constraint", "frequent checkpoints", "hook"],
)
def test_table_with_special_rules_is_left_to_spark(detail: dict[str, Any]) -> None:
    assert rules(**detail) is None


@pytest.mark.parametrize("at", [lambda field: field, inside], ids=["top level", "nested"])
@pytest.mark.parametrize(
    "field",
    [
        StructField("offset", LongType(), nullable=False),
        StructField("offset", LongType(), metadata={"delta.invariants": "x"}),
        StructField("offset", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
        StructField("offset", NullType()),
    ],
    ids=["not null", "invariant", "varchar", "void"],
)
def test_table_with_special_columns_is_left_to_spark(field: StructField, at: Any) -> None:
    assert rules(TOPIC, at(field)) is None


def test_column_comment_is_no_rule() -> None:
    assert rules(TOPIC, StructField("offset", LongType(), metadata={"comment": "Kafka's"})) is not None


NESTED = StructType([StructField("city", StringType())])


@pytest.mark.parametrize(
    ("rows", "are_accepted"),
    [
        ([TOPIC, OFFSET], True),
        ([OFFSET], True),
        ([StructField("offset", LongType(), nullable=False), TOPIC], True),
        ([OFFSET, TOPIC, StructField("more", StringType())], False),
        ([OFFSET, StructField("Topic", StringType())], False),
        ([StructField("offset", IntegerType()), TOPIC], False),
    ],
    ids=["another order", "fewer", "without nulls", "more", "another case", "another type"],
)
def test_rows_are_accepted_by_names_and_types(rows: list[StructField], are_accepted: bool) -> None:
    assert rules_with().accepts(columns(*rows)) == are_accepted


@pytest.mark.parametrize(("inner", "are_accepted"), [(NESTED, True), (StructType([TOPIC]), False)])
def test_rows_are_compared_within_structs(inner: DataType, are_accepted: bool) -> None:
    table = rules(StructField("place", NESTED))
    assert table is not None
    assert table.accepts(columns(StructField("place", inner))) == are_accepted
