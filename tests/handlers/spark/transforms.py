"""A transform as users write it, for tests that refer to one by name."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, udf


def values(frame: DataFrame) -> DataFrame:
    """Select the rows with even offsets, and repeat the text of each value twice by a Python function."""
    double = udf(lambda text: text * 2)
    return frame.where(col("offset") % 2 == 0).select("offset", double(col("value").cast("string")).alias("text"))
