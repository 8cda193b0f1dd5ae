"""Whether Spark and this process see each other's files: on a cluster, or behind Spark Connect, other machines work.

Asked when a table is opened: else the first landing would fail, with a message about a file that is there. Only an
answer that a file is not there, or not permitted, is a matter of configuration (HandlerError). A full disk, or a server
that dies in a probe, passes (LandingError).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sarameya import HandlerError
from sarameya_handlers.landing.files import is_refusal
from sarameya_handlers.spark.errors import LandingError, cause_of, text_of
from sarameya_handlers.spark.poison.blame import passes_by_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "probe-"
_PROBES = 16
"""Files, each for a task of its own where there are as many cores: so that more than one executor is asked."""


def check_reads(spark: SparkSession | None, directory: Path) -> None:
    """Raise HandlerError unless Spark reads what this process writes to `directory`, which is there, LandingError where
    that cannot be found out now. Blocking; one job.

    A machine that gets none of the job's tasks is not asked; nor is anybody where there is no Spark at all.
    """
    if spark is None or is_here(spark):
        return
    probes = [directory / f"{_PROBE}{uuid4().hex}.parquet" for _ in range(_PROBES)]
    try:
        _write(probes)
        # A condition, or the rows would be counted by the files' footers alone.
        found = spark.read.schema("number int").parquet(*map(spark_path, probes))
        count = found.where("number = 1").count()
    except Exception as error:
        raise _failure(_READS, directory, error) from error
    finally:
        for probe in probes:
            probe.unlink(missing_ok=True)
    if count != _PROBES:
        raise HandlerError(f"{_READS} {directory} ({count} rows of {_PROBES}): {_ADVICE}")


def check_writes(spark: SparkSession | None, directory: Path) -> None:
    """The other way round: unless this process reads, and may remove, what Spark writes to `directory`."""
    if spark is None or is_here(spark):
        return
    probe = directory / f"{_PROBE}{uuid4().hex}"
    try:
        spark.range(0, _PROBES, 1, _PROBES).write.parquet(spark_path(probe))
        count = rows_below(probe)
        shutil.rmtree(probe)
    except Exception as error:
        raise _failure(_WRITES, directory, error) from error
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    if count != _PROBES:
        raise HandlerError(f"{_WRITES} {directory} ({count} rows of {_PROBES}): {_ADVICE}")


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

    return sum(int(pq.read_metadata(file).num_rows) for file in directory.rglob("*.parquet") if file.is_file())


def _failure(told: str, directory: Path, error: Exception) -> HandlerError | LandingError:
    if _is_unseen(error):
        return HandlerError(f"{told} {directory} ({cause_of(error)}): {_ADVICE}")
    return LandingError(f"{directory}: Spark and this process cannot try each other's files: {cause_of(error)}")


def _is_unseen(error: Exception) -> bool:
    """Whether an error says that a file of a probe is not there for the other side, or not permitted."""
    if isinstance(error, OSError):
        return is_refusal(error)
    # Of Java's, asked while there is a JVM: it calls a file that a full disk has no room for "not found", too.
    text = text_of(error) or ""
    return _PROBE in text and _UNSEEN.search(text) is not None and not passes_by_text(text)


_UNSEEN = re.compile(
    r"FileNotFoundException|NoSuchFileException|AccessControlException|AccessDeniedException|Permission denied"
    r"|FILE_NOT_EXIST|PATH_NOT_FOUND"
)
_ADVICE = (
    "choose a directory that all machines of Spark have mounted under this path, with a user who may write there, or "
    'let Spark run here (master = "local[*]")'
)
_READS = "Spark does not read what this process writes to"
_WRITES = "this process does not read what Spark writes to"
