"""Constraints of Delta tables. No Spark runs."""

from __future__ import annotations

from pyspark.sql.types import LongType, StructField, StructType

from sarameya_handlers.spark.delta.constraints import requirements
from sarameya_handlers.spark.tables.evaluation import Requirement


def test_constraints_come_from_properties_and_columns() -> None:
    positive = {"delta.invariants": '{"expression": {"expression": "n > 0"}}'}
    schema = StructType(
        [
            StructField("n", LongType(), metadata=positive),
            StructField("s", StructType([StructField("id", LongType(), nullable=False)])),
        ]
    )
    properties = {"delta.constraints.small": "n < 10", "delta.appendOnly": "true"}
    assert list(requirements(schema, properties)) == [
        Requirement("NOT NULL constraint of s.id", "`s`.`id` is not null"),
        Requirement("CHECK constraint small (n < 10)", "n < 10"),
        Requirement("invariant of n (n > 0)", "n > 0"),
    ]


def test_table_without_constraints_requires_nothing() -> None:
    schema = StructType([StructField("n", LongType(), metadata={"comment": "x"})])
    assert list(requirements(schema, {"delta.appendOnly": "true"})) == []
