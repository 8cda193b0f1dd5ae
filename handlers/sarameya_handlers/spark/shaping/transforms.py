"""What is made of decoded records: the value's fields lifted, a transform in Python or SQL; and whose error it is."""

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


def transformed(frame: DataFrame, transform: Transform) -> DataFrame:
    """What the transform makes of the frame. Raises ShapeError where that fails, or is no DataFrame."""
    made = said_in_a_line("transform", lambda: analysed(transform(frame)))
    # By what it can do: pyspark has several classes of DataFrame, according to how it is run.
    if not (hasattr(made, "coalesce") and hasattr(made, "write")):
        raise ShapeError(f"transform must return a DataFrame, not {type(made).__name__}")
    return cast("DataFrame", made)


def queried(spark: SparkSession, frame: DataFrame, query: str) -> DataFrame:
    """The rows of a query in which `batch` is the frame. Raises ShapeError where it is no query, or a wrong one.

    As one within another: a view of that name would be everybody's.
    """
    inner = query.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
    whole = f"with batch as (select * from {{sarameya_batch}}) select * from (\n{inner}\n)"
    made = said_in_a_line("transform_sql", lambda: analysed(spark.sql(whole, sarameya_batch=frame)))
    return cast("DataFrame", made)


def flattened(frame: DataFrame) -> DataFrame:
    """The frame with the fields of its value in the place of the value.

    Raises ShapeError where it has none, or some that are called as another column is.
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


def analysed(made: Any) -> Any:
    """Have it analysed: Spark Connect would do that, and find what is wrong, only where it is written."""
    if hasattr(made, "schema"):
        _ = made.schema
    return made


def said_in_a_line(what: str, make: Callable[[], Any]) -> Any:
    """What `make` makes. Raises ShapeError, in a line, where what was asked for is wrong."""
    try:
        return make()
    except SarameyaError:
        raise
    except Exception as error:
        if _is_asked_wrongly(error):
            raise ShapeError(f"{what} fails: {cause_of(error)}") from error
        raise


_ASKED_WRONGLY = frozenset({"AnalysisException", "ParseException", "IllegalArgumentException"})
"""What Spark says of a wrong call, classic and Connect alike."""
_OF_SPARK = ("pyspark.errors.exceptions.captured", "pyspark.errors.exceptions.connect", "py4j.", "grpc.")
"""Where the classes are that say whatever else goes wrong on Spark's side, it being gone among it."""


def _is_asked_wrongly(error: Exception) -> bool:
    """Whether the same would fail again: what a transform in Python raises would."""
    if any(kind.__name__ in _ASKED_WRONGLY for kind in type(error).__mro__):
        return True
    of_spark = type(error).__module__.startswith(_OF_SPARK) or type(error).__name__ == "PySparkRuntimeError"
    if isinstance(error, OSError) or of_spark:
        return "org.apache.avro." in cause_of(error)
    return True
