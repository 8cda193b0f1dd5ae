"""Requirements of tables as SQL expressions. No Spark runs."""

from __future__ import annotations

from typing import Any

import attrs
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from sarameya_handlers.spark.tables.evaluation import Requirement, not_null, with_checks

INSIDE = StructType([StructField("a b", LongType(), nullable=False), StructField("c", LongType())])
SCHEMA = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("name", StringType()),
        StructField("s", INSIDE),
        StructField("many", ArrayType(INSIDE, containsNull=False)),
    ]
)


@attrs.define
class Frame:
    selected: tuple[str, ...] = ()

    def selectExpr(self, *expressions: str) -> Any:
        return Frame(expressions)


def test_non_null_columns_and_fields_are_required() -> None:
    assert list(not_null(SCHEMA, spares_null_structs=False)) == [
        Requirement("NOT NULL constraint of id", "`id` is not null"),
        Requirement("NOT NULL constraint of s.a b", "`s`.`a b` is not null"),
    ]


def test_null_struct_needs_no_fields_where_delta_allows() -> None:
    assert [one.condition for one in not_null(SCHEMA, spares_null_structs=True)] == [
        "`id` is not null",
        "`s` is null or `s`.`a b` is not null",
    ]


def test_violated_condition_raises_its_name() -> None:
    required = [Requirement("CHECK it's (n > 0)", "n > 0"), Requirement("id", "id is not null")]
    frame: Any = with_checks(Frame(), required)  # type: ignore[arg-type]
    assert frame.selected == (
        "*",
        r"case when not coalesce((n > 0), false) then raise_error('CHECK it\'s (n > 0) is violated') "
        "when not coalesce((id is not null), false) then raise_error('id is violated') else true end "
        "as _sarameya_check",
    )


def test_frame_without_requirements_is_unchanged() -> None:
    frame: Any = Frame()
    assert with_checks(frame, []) is frame
