"""Whether what Spark needs is installed: pyspark, pyarrow, gRPC, a Java that is new enough. Asked before pyspark
starts, whose own words about it are a shell script's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from sarameya import HandlerError, install_command
from sarameya_handlers.landing.files import is_refusal
from sarameya_handlers.spark.errors import SparkStartError, cause_of

OLDEST_JAVA = 17

_INSTALL = (
    "install Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "and let JAVA_HOME or PATH lead to it"
)


def require_packages() -> None:
    """Raise HandlerError unless pyspark and pyarrow can be imported."""
    try:
        import pyarrow  # noqa: F401
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise HandlerError(f"the Spark sink needs pyspark and pyarrow ({error}): {install_command('spark')}") from error


def require_connect() -> None:
    """Raise HandlerError unless pyspark can be a client of Spark Connect."""
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:  # what pyspark raises is one, and says what is missing
        raise HandlerError(f"Spark Connect needs gRPC ({cause_of(error)}): {install_command('connect')}") from error


def require_java() -> None:
    """Raise HandlerError unless the Java that Spark will use is there and new enough, SparkStartError where that cannot
    be found out now."""
    home = os.environ.get("JAVA_HOME")
    # Spark's own rule (bin/spark-class).
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise HandlerError(f"Spark needs Java, and there is none on this machine: {_INSTALL}")
    try:
        # In a process group of its own: a terminal's Ctrl-C is for us, and would make of it a Java that tells nothing.
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False, process_group=0
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        told = f"Spark needs Java, and {java} cannot be run ({error})"
        if isinstance(error, OSError) and is_refusal(error):
            raise HandlerError(f"{told}: {_INSTALL}") from error
        raise SparkStartError(told) from error
    told = done.stderr
    version = java_version(told)
    if version is None and (done.returncode < 0 or "Error occurred during initialization of VM" in told):
        raise SparkStartError(f"Spark needs Java, and {java} has not come up (it says {told.strip()!r})")
    if version is None:
        raise HandlerError(f"Spark needs Java, and {java} tells no version (it says {told.strip()!r}): {_INSTALL}")
    if version < OLDEST_JAVA:
        raise HandlerError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is Java {version}: {_INSTALL}")


def java_version(told: str) -> int | None:
    """The feature version in what `java -version` prints (8 for "1.8.0_292"), None if it names none."""
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None
