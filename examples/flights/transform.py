"""From Kafka's records to a table of flights: what Spark does with each landing before it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FLIGHT = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
    "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, "
    "air_time int, distance int, hour int, minute int, time_hour timestamp"
)


def flights(records: DataFrame) -> DataFrame:
    """A row a record: where it stands in Kafka, and the flight's own columns."""
    from pyspark.sql import functions as F

    flight = F.from_json(records.value.cast("string"), FLIGHT).alias("flight")
    return records.select("topic", "partition", "offset", flight).select("topic", "partition", "offset", "flight.*")
