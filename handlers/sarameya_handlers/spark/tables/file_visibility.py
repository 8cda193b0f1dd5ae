"""Checks that Spark and this process see each other's files. A cluster or Spark Connect may run on other machines.

Tables run the checks when they are opened. Otherwise the first flush would fail, with a message about a file that
exists. Only a file that is missing or not permitted is a configuration error (HandlerError). A full disk, or a server
that dies during the check, may be a passing error (LandingError).
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sarameya import HandlerError
from sarameya_handlers.landing.directory.parquet_merge import count_rows
from sarameya_handlers.landing.files import PROBE, is_refusal
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.error_sources import passes_by_text
from sarameya_handlers.spark.errors import LandingError, cause_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBES = 16
"""Number of files. With enough cores each file is one task, so that the job checks several executors."""

_UNSEEN = re.compile(
    r"FileNotFoundException|NoSuchFileException|AccessControlException|AccessDeniedException|Permission denied"
    r"|FILE_NOT_EXIST|PATH_NOT_FOUND"
)
_UNREACHED = re.compile(r"S3AFileSystem not found|No FileSystem for scheme|NoAwsCredentials|Forbidden|NoSuchBucket")
"""Errors of Spark with an object store that remain until a person changes something."""
_ADVICE = (
    "choose a directory that all machines of Spark have mounted under this path, with a user who may write there, or "
    'let Spark run here (master = "local[*]")'
)
_READS = "Spark does not read what this process writes to"
_WRITES = "this process does not read what Spark writes to"


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
    probes = [directory / f"{PROBE}{uuid4().hex}.parquet" for _ in range(_PROBES)]
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


def check_writes(spark: SparkSession | None, store: Store, directory: str) -> None:
    """Check that this process reads, and may remove, files that Spark writes to the directory. Otherwise as above."""
    if spark is None or (is_local(spark) and isinstance(store, LocalStore)):
        return
    probe = f"{directory}/{PROBE}{uuid4().hex}"
    try:
        spark.range(0, _PROBES, 1, _PROBES).write.parquet(store.spark_url(probe))
        count = count_rows_below(store, probe)
        store.remove(probe)
    except Exception as error:
        raise _failure(_WRITES, f"{store.place}/{directory}", error, _advice(store)) from error
    finally:
        with suppress(OSError):
            store.remove(probe)
    if count != _PROBES:
        raise HandlerError(f"{_WRITES} {store.place}/{directory} ({count} rows of {_PROBES}): {_advice(store)}")


def _advice(store: Store) -> str:
    if isinstance(store, LocalStore):
        return _ADVICE
    return (
        "give Spark the store's connector (for s3:// the package org.apache.hadoop:hadoop-aws, of Spark's version of "
        "Hadoop, in spark.jars.packages), and its settings (spark.hadoop.fs.s3a.endpoint and others)"
    )


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


def count_rows_below(store: Store, directory: str) -> int:
    """Count the rows of all Parquet files below a directory, by their footers."""
    return sum(count_rows(store, name) for name in store.names(directory) if name.endswith(".parquet"))


def _failure(
    problem: str, directory: Path | str, error: Exception, advice: str = _ADVICE
) -> HandlerError | LandingError:
    if _is_unseen(error):
        return HandlerError(f"{problem} {directory} ({cause_of(error)}): {advice}")
    return LandingError(f"{directory}: Spark and this process cannot check each other's files: {cause_of(error)}")


def _is_unseen(error: Exception) -> bool:
    """Return whether the error says that the other side's probe file is missing or not permitted."""
    if isinstance(error, OSError):
        return is_refusal(error)
    # Without a JVM, the error has no text. Java also reports "not found" if a full disk has no room for the file.
    text = text_of(error) or ""
    if _UNREACHED.search(text):
        return True
    return PROBE in text and _UNSEEN.search(text) is not None and not passes_by_text(text)
