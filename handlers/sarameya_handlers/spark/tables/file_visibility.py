"""Checks that Spark and this process see each other's files. A cluster or Spark Connect may run on other machines.

Tables run the checks when they are opened. Otherwise the first flush would fail, with a message about a file that
exists. Only a file that is missing or not permitted is a configuration error (HandlerError). A full disk, or a server
that dies during the check, may be a passing error (LandingError).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sarameya import HandlerError
from sarameya_handlers.landing.files import is_refusal
from sarameya_handlers.spark.error_sources import passes_by_text
from sarameya_handlers.spark.errors import LandingError, cause_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "probe-"
_PROBES = 16
"""Number of files. With enough cores each file is one task, so that the job checks several executors."""


def check_reads(spark: SparkSession | None, directory: Path) -> None:
    """Check that Spark reads files that this process writes to an existing directory. Blocking; one job.

    The job does not check a machine that runs none of its tasks.

    Args:
        spark: The session; None checks nothing.
        directory: The directory.

    Raises:
        HandlerError: Spark does not read the files.
        LandingError: The check failed for a reason that may pass.
    """
    if spark is None or is_local(spark):
        return
    probes = [directory / f"{_PROBE}{uuid4().hex}.parquet" for _ in range(_PROBES)]
    try:
        _write(probes)
        # With a condition: otherwise Spark would count rows by the files' footers alone.
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
    """Check that this process reads, and may remove, files that Spark writes to the directory. Otherwise as above."""
    if spark is None or is_local(spark):
        return
    probe = directory / f"{_PROBE}{uuid4().hex}"
    try:
        spark.range(0, _PROBES, 1, _PROBES).write.parquet(spark_path(probe))
        count = count_rows_below(probe)
        shutil.rmtree(probe)
    except Exception as error:
        raise _failure(_WRITES, directory, error) from error
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    if count != _PROBES:
        raise HandlerError(f"{_WRITES} {directory} ({count} rows of {_PROBES}): {_ADVICE}")


def spark_path(path: Path) -> str:
    """Return the URL of a local path: Spark's default file system may be another. Hadoop decodes no %-escapes in it."""
    return f"file://{path}"


def is_local(spark: SparkSession) -> bool:
    """Return whether all of Spark runs in processes of this machine."""
    # Sessions of Spark Connect have no context, and the server may be on any machine.
    context = getattr(spark, "sparkContext", None)
    return context is not None and str(context.master).partition("[")[0] == "local"


def _write(probes: list[Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table({"number": pa.array([1], pa.int32())})
    for probe in probes:
        pq.write_table(rows, probe)


def count_rows_below(directory: Path) -> int:
    """Count the rows of all Parquet files below a directory, by their footers."""
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(file).num_rows) for file in directory.rglob("*.parquet") if file.is_file())


def _failure(problem: str, directory: Path, error: Exception) -> HandlerError | LandingError:
    if _is_unseen(error):
        return HandlerError(f"{problem} {directory} ({cause_of(error)}): {_ADVICE}")
    return LandingError(f"{directory}: Spark and this process cannot check each other's files: {cause_of(error)}")


def _is_unseen(error: Exception) -> bool:
    """Return whether the error says that the other side's probe file is missing or not permitted."""
    if isinstance(error, OSError):
        return is_refusal(error)
    # Without a JVM, the error has no text. Java also reports "not found" if a full disk has no room for the file.
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
