"""Transforms of decoded records: flattening, a user's Python or SQL. Distinguishes the user's errors from Spark's."""

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
    """Apply the transform to the frame. Raises ShapeError if it fails, or does not return a DataFrame."""
    result = with_shape_errors("transform", lambda: analyze(transform(frame)))
    # By duck typing: pyspark has several DataFrame classes.
    if not (hasattr(result, "coalesce") and hasattr(result, "write")):
        raise ShapeError(f"transform must return a DataFrame, not {type(result).__name__}")
    return cast("DataFrame", result)


def run_query(spark: SparkSession, frame: DataFrame, query: str) -> DataFrame:
    """Run a query in which `batch` is the frame. Raises ShapeError if the query is wrong.

    The frame is a subquery: a view with that name would be visible to all users of the session.
    """
    inner = query.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
    whole = f"with batch as (select * from {{sarameya_batch}}) select * from (\n{inner}\n)"
    result = with_shape_errors("transform_sql", lambda: analyze(spark.sql(whole, sarameya_batch=frame)))
    return cast("DataFrame", result)


def flatten_value(frame: DataFrame) -> DataFrame:
    """Return the frame with the value's column replaced by columns of its fields.

    Raises:
        ShapeError: The value has no fields, or a field has the name of another column.
    """
    from pyspark.sql.types import StructType

    kind = frame.schema["value"].dataType
    if not isinstance(kind, StructType):
        raise ShapeError(f"flatten needs a value with fields, but the value is {kind.simpleString()}")
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


def analyze(frame: Any) -> Any:
    """Analyze a frame now, and return it. Otherwise Spark Connect finds mistakes only when the frame is written."""
    if hasattr(frame, "schema"):
        _ = frame.schema
    return frame


def with_shape_errors(step: str, make: Callable[[], Any]) -> Any:
    """Call `make` and return its result. Raises ShapeError, with one line of text, for an error of the user's."""
    try:
        return make()
    except SarameyaError:
        raise
    except Exception as error:
        if _is_user_error(error):
            raise ShapeError(f"{step} fails: {cause_of(error)}") from error
        raise


_USER_ERRORS = frozenset({"AnalysisException", "ParseException", "IllegalArgumentException"})
"""Spark's errors for a wrong call, of classic Spark and Spark Connect."""
_SPARK_MODULES = ("pyspark.errors.exceptions.captured", "pyspark.errors.exceptions.connect", "py4j.", "grpc.")
"""Modules with the classes of all other errors of Spark, including a lost Spark."""


def _is_user_error(error: Exception) -> bool:
    """Return whether the same call would fail again, for example with an exception in a Python transform."""
    if any(kind.__name__ in _USER_ERRORS for kind in type(error).__mro__):
        return True
    is_sparks = type(error).__module__.startswith(_SPARK_MODULES) or type(error).__name__ == "PySparkRuntimeError"
    if isinstance(error, OSError) or is_sparks:
        return "org.apache.avro." in cause_of(error)
    return True
