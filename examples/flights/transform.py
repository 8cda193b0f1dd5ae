"""The transform of the demo: from Kafka's records to columns of flights."""

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
    """Return one row for each record: topic, partition, offset, and the flight's own columns."""
    from pyspark.sql import functions as F

    flight = F.from_json(records.value.cast("string"), FLIGHT).alias("flight")
    return records.select("topic", "partition", "offset", flight).select("topic", "partition", "offset", "flight.*")
