"""Transforms as a user writes them, for the tests to name."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, udf


def values(frame: DataFrame) -> DataFrame:
    """The values as text, doubled by a Python function, where the offset is even."""
    double = udf(lambda text: text * 2)
    return frame.where(col("offset") % 2 == 0).select("offset", double(col("value").cast("string")).alias("text"))
