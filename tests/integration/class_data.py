"""Archives of class data: a JVM finds the classes it needs laid out as an earlier one had them.

Half of a test run was JVMs that read, checked and linked the same thousands of classes; with an archive (JDK 17:
dynamic class data sharing) they start in a third of the time. It serves only the very jars it was made with, so it lies
in the checkout, as the virtual environment with Spark's does. A JVM that cannot use it starts as if there were none.
`make_class_data` makes them.
"""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "build" / "class-data"
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC", "-Xshare:auto")
"""A quick start matters more to tests than the speed of a warm JVM. With the one compiler that starts quickly a JVM has
a fifth of the room for code, which Spark with Delta fills in minutes: it then goes on throwing away and compiling anew.
"""


def archive_of(program: str) -> Path:
    """Return the path of a program's archive, whether it exists or not."""
    return DIRECTORY / f"{program}.jsa"


def quick(program: str) -> tuple[str, ...]:
    """The options of a JVM that a test starts, with the archive of its `program` if there is one."""
    archive = archive_of(program)
    # Without a word where the archive is of other jars, or of another Java.
    return (*_QUICK, "-Xlog:disable", f"-XX:SharedArchiveFile={archive}") if archive.exists() else _QUICK


def quick_spark() -> dict[str, str]:
    """Return the environment in which Spark starts quickly."""
    # Of the JVM itself, and of the one before it, which puts together its command.
    return {"SPARK_SUBMIT_OPTS": " ".join(quick("spark")), "SPARK_LAUNCHER_OPTS": " ".join(_QUICK)}
