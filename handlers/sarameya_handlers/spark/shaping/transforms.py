"""User transforms of decoded records: flattening, Python, SQL. Distinguishes the user's errors from Spark's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from sarameya import SarameyaError
from sarameya_handlers.spark.errors import cause_of
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.tables.expressions import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sarameya_handlers.spark.options import Transform


def apply_transform(frame: DataFrame, transform: Transform) -> DataFrame:
    """Apply the transform to the frame. Raises ShapeError if it fails, or returns no DataFrame."""
    made = with_shape_errors("transform", lambda: analyze(transform(frame)))
    # By duck typing: pyspark has several DataFrame classes.
    if not (hasattr(made, "coalesce") and hasattr(made, "write")):
        raise ShapeError(f"transform must return a DataFrame, not {type(made).__name__}")
    return cast("DataFrame", made)


def run_query(spark: SparkSession, frame: DataFrame, query: str) -> DataFrame:
    """Run a query in which `batch` is the frame. Raises ShapeError if the query is wrong.

    The frame is a subquery: a view with that name would be visible to all users of the session.
    """
    inner = query.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
    whole = f"with batch as (select * from {{sarameya_batch}}) select * from (\n{inner}\n)"
    made = with_shape_errors("transform_sql", lambda: analyze(spark.sql(whole, sarameya_batch=frame)))
    return cast("DataFrame", made)


def flatten_value(frame: DataFrame) -> DataFrame:
    """Return the frame with the fields of its value in the value's place.

    Raises:
        ShapeError: The value has no fields, or one of them has the name of another column.
    """
    from pyspark.sql.types import StructType

    kind = frame.schema["value"].dataType
    if not isinstance(kind, StructType):
        raise ShapeError(f"flatten needs a value with fields, and it is {kind.simpleString()}")
    others = [name for name in frame.columns if name != "value"]
    twice = sorted({name.lower() for name in others} & {name.lower() for name in kind.names})
    if twice:
        raise ShapeError(
            f"flatten would make two columns of {', '.join(twice)}: the record's own, and the value's. "
            "Name them yourself, without flatten: transform_sql = 'select value.*, offset as kafka_offset from batch'"
        )
    fields = [f"value.{quoted(name)} as {quoted(name)}" for name in kind.names]
    place = frame.columns.index("value")
    rest = [quoted(name) for name in frame.columns]
    return frame.selectExpr(*rest[:place], *fields, *rest[place + 1 :])


def analyze(made: Any) -> Any:
    """Analyze a frame now. Spark Connect would do so, and find mistakes, only when it is written."""
    if hasattr(made, "schema"):
        _ = made.schema
    return made


def with_shape_errors(what: str, make: Callable[[], Any]) -> Any:
    """Call `make` and return its result. Raises ShapeError, with one line of text, if the user's request is wrong."""
    try:
        return make()
    except SarameyaError:
        raise
    except Exception as error:
        if _is_user_error(error):
            raise ShapeError(f"{what} fails: {cause_of(error)}") from error
        raise


_USER_ERRORS = frozenset({"AnalysisException", "ParseException", "IllegalArgumentException"})
"""Spark's errors for a wrong call, classic and Connect alike."""
_OF_SPARK = ("pyspark.errors.exceptions.captured", "pyspark.errors.exceptions.connect", "py4j.", "grpc.")
"""Modules of the error classes for all other troubles on Spark's side, including a lost Spark."""


def _is_user_error(error: Exception) -> bool:
    """Return whether the same call would fail again, as an exception in a Python transform would."""
    if any(kind.__name__ in _USER_ERRORS for kind in type(error).__mro__):
        return True
    of_spark = type(error).__module__.startswith(_OF_SPARK) or type(error).__name__ == "PySparkRuntimeError"
    if isinstance(error, OSError) or of_spark:
        return "org.apache.avro." in cause_of(error)
    return True
