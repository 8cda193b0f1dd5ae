"""Decoding plans: a plan converts one column's bytes to values. It depends on the prefixes of the column's records.

A plan is made for one batch, or for several that must get equal columns. A schema that is registered later is used by
the next plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from sarameya.registry.wire import Prefix
from sarameya_handlers.spark.shaping.formats.wire import PrefixSurvey, survey
from sarameya_handlers.spark.tables.expressions import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Plan(Protocol):
    """A way to decode one column."""

    @property
    def unknown(self) -> Mapping[bytes, str]:
        """Reasons why records with certain prefixes cannot be decoded, known before trying."""

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        """Return the frame with the column decoded. A record that cannot be decoded raises an error later."""

    def undecodable(self, frame: DataFrame, column: str, records: pa.Table) -> Mapping[int, str]:
        """Return the faults of the records that cannot be decoded, by offset. A fault is "" if it is not known.

        Leaves out records with an `unknown` prefix. May run a Spark job.

        Args:
            frame: The records.
            column: The column to decode.
            records: The same records, as an Arrow table.
        """


class ColumnCodec(Protocol):
    """A format with its schema options."""

    @property
    def with_message(self) -> bool | None:
        """True if a record's prefix names a message besides its schema; None if records have no prefix."""

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> Plan:
        """Make the plan for records of a topic. May wait for a registry.

        Args:
            topic: The topic.
            prefixes: The prefixes of its records.

        Raises:
            ShapeError: The schemas do not match the options.
            RegistryError: The registry failed.
        """

    def probe(self) -> Plan:
        """Return a plan to check that Spark can decode the format at all. Its schema need not be the records'.

        Raises:
            ShapeError: The options' own schema is wrong.
        """


Expression = Callable[[str], str]
"""Builds SQL from the column's name."""


@attrs.frozen(slots=True)
class SqlPlan:
    """Decodes by SQL expressions, in order: each replaces the column by its value.

    Attributes:
        steps: The expressions.
        undecodable_if: Condition on the bytes.
        unknown: See `Plan`.
    """

    steps: tuple[Expression, ...]
    undecodable_if: Expression
    unknown: Mapping[bytes, str] = attrs.field(factory=dict)

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        for step in self.steps:
            frame = replace_column(frame, column, step(quoted(column)))
        return frame

    def undecodable(self, frame: DataFrame, column: str, records: pa.Table) -> dict[int, str]:
        found = frame.selectExpr("offset", f"({self.undecodable_if(quoted(column))}) as bad").filter("bad")
        return {row["offset"]: "" for row in found.select("offset").collect()}


def replace_column(frame: DataFrame, column: str, expression: str) -> DataFrame:
    """Return the frame with a column replaced by an expression."""
    return frame.selectExpr(
        *(f"{expression} as {quoted(name)}" if name == column else quoted(name) for name in frame.columns)
    )


def survey_column(codec: ColumnCodec, values: Any) -> PrefixSurvey | None:
    """Return the prefixes of a column's records; None if they have no prefix."""
    return None if codec.with_message is None else survey(values, with_message=codec.with_message)
