"""What tables require of rows, as expressions. No Spark runs."""

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


def test_columns_and_fields_that_must_not_be_null_are_required() -> None:
    assert list(not_null(SCHEMA, spares_null_structs=False)) == [
        Requirement("NOT NULL constraint of id", "`id` is not null"),
        Requirement("NOT NULL constraint of s.a b", "`s`.`a b` is not null"),
    ]


def test_fields_of_a_struct_that_is_null_are_spared_where_the_table_does() -> None:
    assert [one.condition for one in not_null(SCHEMA, spares_null_structs=True)] == [
        "`id` is not null",
        "`s` is null or `s`.`a b` is not null",
    ]


def test_row_for_which_a_condition_is_false_or_null_raises_its_name_and_no_row_is_left_out() -> None:
    required = [Requirement("CHECK it's (n > 0)", "n > 0"), Requirement("id", "id is not null")]
    frame: Any = with_checks(Frame(), required)  # type: ignore[arg-type]
    assert frame.selected == (
        "*",
        r"case when not coalesce((n > 0), false) then raise_error('CHECK it\'s (n > 0) is violated') "
        "when not coalesce((id is not null), false) then raise_error('id is violated') else true end "
        "as _sarameya_check",
    )


def test_frame_of_which_nothing_is_required_stays_as_it_is() -> None:
    frame: Any = Frame()
    assert with_checks(frame, []) is frame
