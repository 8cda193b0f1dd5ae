"""Whether Spark and this process see each other's files: on a cluster, or behind Spark Connect, other machines work.

Asked when a table is opened: else the first landing would fail, with a message about a file that is there.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sarameya import HandlerError
from sarameya_handlers.spark.errors import cause_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBES = 16
"""Files, each for a task of its own where there are as many cores: so that more than one executor is asked."""


def check_reads(spark: SparkSession | None, directory: Path) -> None:
    """Raise HandlerError unless Spark reads what this process writes to `directory`, which is there. Blocking; one job.

    A machine that gets none of the job's tasks is not asked; nor is anybody where there is no Spark at all.
    """
    if spark is None or is_here(spark):
        return
    probes = [directory / f"probe-{uuid4().hex}.parquet" for _ in range(_PROBES)]
    try:
        _write(probes)
        # A condition, or the rows would be counted by the files' footers alone.
        found = spark.read.schema("number int").parquet(*map(spark_path, probes))
        count = found.where("number = 1").count()
    except Exception as error:
        raise HandlerError(_READS.format(directory=directory, found=cause_of(error))) from error
    finally:
        for probe in probes:
            probe.unlink(missing_ok=True)
    if count != _PROBES:
        raise HandlerError(_READS.format(directory=directory, found=f"{count} rows of {_PROBES}"))


def check_writes(spark: SparkSession | None, directory: Path) -> None:
    """The other way round: unless this process reads, and may remove, what Spark writes to `directory`."""
    if spark is None or is_here(spark):
        return
    probe = directory / f"probe-{uuid4().hex}"
    try:
        spark.range(0, _PROBES, 1, _PROBES).write.parquet(spark_path(probe))
        count = rows_below(probe)
        shutil.rmtree(probe)
    except Exception as error:
        raise HandlerError(_WRITES.format(directory=directory, found=cause_of(error))) from error
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    if count != _PROBES:
        raise HandlerError(_WRITES.format(directory=directory, found=f"{count} rows of {_PROBES}"))


def spark_path(path: Path) -> str:
    """A local path as Spark reads it, also where its default file system is another (Hadoop decodes no %-escapes)."""
    return f"file://{path}"


def is_here(spark: SparkSession) -> bool:
    """Whether all of Spark is a process of this machine."""
    # Spark Connect's sessions have no context, and its server may be anywhere.
    context = getattr(spark, "sparkContext", None)
    return context is not None and str(context.master).partition("[")[0] == "local"


def _write(probes: list[Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table({"number": pa.array([1], pa.int32())})
    for probe in probes:
        pq.write_table(rows, probe)


def rows_below(directory: Path) -> int:
    """In Parquet files, by what they say of themselves."""
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(file).num_rows) for file in directory.rglob("*.parquet"))


_ADVICE = (
    " ({found}): choose a directory that all machines of Spark have mounted under this path, with a user who may write "
    'there, or let Spark run here (master = "local[*]")'
)
_READS = "Spark does not read what this process writes to {directory}" + _ADVICE
_WRITES = "this process does not read what Spark writes to {directory}" + _ADVICE
