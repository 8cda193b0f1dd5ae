"""Archives of class data, from which a JVM maps loaded classes instead of loading them (JDK 17: dynamic CDS).

Half the time of a test run was spent on JVMs that read, checked and linked the same thousands of classes; with an
archive they start in a third of the time. An archive is valid only for the jars that it was made with, so it is kept in
the checkout, like the virtual environment with Spark's jars. A JVM that cannot use its archive starts without it.
`make_class_data` creates the archives.
"""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "build" / "class-data"
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options for a quick start, which matters more to tests than the speed of a warm JVM.

With the quick compiler alone, a JVM's code cache has a fifth of its usual size. Spark with Delta fills that in minutes,
and the JVM then evicts and compiles the same code again and again: so the size is set.
"""


def archive_of(program: str) -> Path:
    """Return the path of a program's archive, whether it exists or not."""
    return DIRECTORY / f"{program}.jsa"


def quick(program: str) -> tuple[str, ...]:
    """Return the options of a JVM that a test starts, with the archive of `program` if it exists."""
    archive = archive_of(program)
    # -Xlog:disable: no warning if the archive is of other jars or of another Java.
    return (*_QUICK, "-Xlog:disable", f"-XX:SharedArchiveFile={archive}") if archive.exists() else _QUICK


def quick_spark() -> dict[str, str]:
    """Return the environment in which Spark starts quickly."""
    # SPARK_LAUNCHER_OPTS is for the short-lived JVM that builds the command line of Spark's JVM.
    return {"SPARK_SUBMIT_OPTS": " ".join(quick("spark")), "SPARK_LAUNCHER_OPTS": " ".join(_QUICK)}
