"""Checks that Spark and this process see each other's files. A cluster or Spark Connect may run on other machines.

Tables run the checks when they are opened. Otherwise the first flush would fail, with a message about a file that
exists. Only a file that is missing or not permitted is a configuration error (HandlerError). A full disk, or a server
that dies during the check, may be a passing error (LandingError).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sarameya import HandlerError
from sarameya_handlers.landing.directory.parquet_merge import count_rows
from sarameya_handlers.landing.files import PROBE, is_refusal
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.engines.connect import is_connect
from sarameya_handlers.spark.error_sources import passes_by_text
from sarameya_handlers.spark.errors import LandingError, cause_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 16
"""Number of rows that Spark writes. With enough cores each is one task, so that several executors write."""

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
_STORE_ADVICE = '; or stage in an object store (staging = "s3://bucket/staging")'
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
_READS = "Spark does not read what this process writes to"
_WRITES = "this process does not read what Spark writes to"


def check_reads(spark: SparkSession, urls: Sequence[str], place: str, store: Store | None = None) -> None:
    """Check that Spark reads files of this process, each with one row in a column `number`. Blocking; one job.

    The job does not check a machine that runs none of its tasks.

    Args:
        spark: The session.
        urls: The files' URLs for Spark.
        place: Their directory, for messages.
        store: The object store that has them; None if they are on this machine.

    Raises:
        HandlerError: Spark does not read the files.
        LandingError: The check failed for a reason that may pass.
    """
    advice = f"{_ADVICE}{_STORE_ADVICE}" if store is None else _advice(store)
    try:
        # With a condition: otherwise Spark would count rows by the files' footers alone.
        count = spark.read.schema("number int").parquet(*urls).where("number = 1").count()
    except Exception as error:
        raise _failure(_READS, place, error, advice) from error
    if count != len(urls):
        raise HandlerError(f"{_READS} {place} ({count} rows of {len(urls)}): {advice}")


def check_writes(spark: SparkSession | None, store: Store, directory: str) -> None:
    """Check that this process reads, and may remove, files that Spark writes to the directory. Otherwise as above."""
    if spark is None or (is_local(spark) and isinstance(store, LocalStore)):
        return
    probe = f"{directory}/{PROBE}{uuid4().hex}"
    try:
        spark.range(0, _ROWS, 1, _ROWS).write.parquet(store.spark_url(probe))
        count = count_rows_below(store, probe)
        store.remove(probe)
    except Exception as error:
        raise _failure(_WRITES, f"{store.place}/{directory}", error, _advice(store)) from error
    finally:
        with suppress(OSError):
            store.remove(probe)
    if count != _ROWS:
        raise HandlerError(f"{_WRITES} {store.place}/{directory} ({count} rows of {_ROWS}): {_advice(store)}")


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


def runs_here(spark: SparkSession) -> bool:
    """Return whether Spark runs on this machine, in this process's JVM or in a Connect server on a loopback address."""
    if not is_connect(spark):
        return is_local(spark)
    remote: Any = spark
    return remote.client.host in _LOOPBACK and str(spark.conf.get("spark.master", "")).partition("[")[0] == "local"


def count_rows_below(store: Store, directory: str) -> int:
    """Count the rows of all Parquet files below a directory, by their footers."""
    return sum(count_rows(store, name) for name in store.names(directory) if name.endswith(".parquet"))


def _failure(problem: str, place: str, error: Exception, advice: str) -> HandlerError | LandingError:
    if _is_unseen(error):
        return HandlerError(f"{problem} {place} ({cause_of(error)}): {advice}")
    return LandingError(f"{place}: Spark and this process cannot check each other's files: {cause_of(error)}")


def _is_unseen(error: Exception) -> bool:
    """Return whether the error says that the other side's probe file is missing or not permitted."""
    if isinstance(error, OSError):
        return is_refusal(error)
    # Without a JVM, the error has no text. Java also reports "not found" if a full disk has no room for the file.
    text = text_of(error) or ""
    if _UNREACHED.search(text):
        return True
    return PROBE in text and _UNSEEN.search(text) is not None and not passes_by_text(text)
