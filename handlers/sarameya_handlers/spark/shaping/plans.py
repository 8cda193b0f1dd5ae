"""How the bytes of one column become what their records are, once it is known what is among them.

A plan is made for a landing, or for several that must come out alike, and then belongs to them: schemas that are
registered meanwhile are for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from sarameya_handlers.spark.shaping.wire import Prefix, Survey, survey
from sarameya_handlers.spark.tables.expressions import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Plan(Protocol):
    """How one column is decoded."""

    @property
    def unknown(self) -> Mapping[bytes, str]:
        """What is wrong with records that begin so: they cannot be decoded, which is known before it is tried."""

    def decoded(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with the column decoded in its place. A record that cannot be is an error when it is computed."""

    def undecodable(self, frame: DataFrame, column: str, records: pa.Table) -> Mapping[int, str]:
        """The records that cannot be decoded, by offset: what is wrong with each in words, "" where nobody can tell.

        Those that are `unknown` are left out. `frame` and `records` are the same records. May run a job of Spark's.
        """


class Codec(Protocol):
    """A format, and what schema is wanted of it."""

    @property
    def with_message(self) -> bool | None:
        """Whether a record's prefix names a message, beside its schema; None where records have no prefix."""

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> Plan:
        """How records of `topic` that have these prefixes are decoded. May ask a registry, and wait for it.

        Raises ShapeError, and RegistryError.
        """

    def probe(self) -> Plan:
        """One that shows whether Spark can decode such a format at all; by what schema, where none is fixed, is open.

        Raises ShapeError.
        """


Expression = Callable[[str], str]
"""SQL, of the name of the column."""


@attrs.frozen(slots=True)
class SqlPlan:
    """By expressions of Spark's SQL, one after the other: each finds the column as the one before it has left it.
    `undecodable_if` is a condition on the bytes."""

    steps: tuple[Expression, ...]
    undecodable_if: Expression
    unknown: Mapping[bytes, str] = attrs.field(factory=dict)

    def decoded(self, frame: DataFrame, column: str) -> DataFrame:
        for step in self.steps:
            frame = replaced(frame, column, step(quoted(column)))
        return frame

    def undecodable(self, frame: DataFrame, column: str, records: pa.Table) -> dict[int, str]:
        found = frame.selectExpr("offset", f"({self.undecodable_if(quoted(column))}) as bad").filter("bad")
        return {row["offset"]: "" for row in found.select("offset").collect()}


def replaced(frame: DataFrame, column: str, expression: str) -> DataFrame:
    """The frame with another content of `column`, in its place."""
    return frame.selectExpr(
        *(f"{expression} as {quoted(name)}" if name == column else quoted(name) for name in frame.columns)
    )


def surveyed(codec: Codec, values: Any) -> Survey | None:
    """What prefixes a column's records have; None where they have none."""
    return None if codec.with_message is None else survey(values, with_message=codec.with_message)
