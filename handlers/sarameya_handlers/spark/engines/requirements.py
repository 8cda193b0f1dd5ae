"""Checks that Spark's requirements are installed: pyspark, pyarrow, gRPC, a recent Java.

They run before pyspark starts a JVM: its own messages about Java come from a shell script.
"""

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
    "and set JAVA_HOME or PATH to it"
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
    except ImportError as error:  # pyspark raises a subclass, whose text names the missing package
        raise HandlerError(f"Spark Connect needs gRPC ({cause_of(error)}): {install_command('connect')}") from error


def require_java() -> None:
    """Check the Java that Spark will use.

    Raises:
        HandlerError: Java is missing or too old.
        SparkStartError: Java does not start, which may pass.
    """
    home = os.environ.get("JAVA_HOME")
    # Spark's own rule (bin/spark-class).
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise HandlerError(f"Spark needs Java, and there is none on this machine: {_INSTALL}")
    try:
        # In its own process group: otherwise Ctrl-C in a terminal would end this Java, too, without output.
        process = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False, process_group=0
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"Spark needs Java, and {java} cannot be run ({error})"
        if isinstance(error, OSError) and is_refusal(error):
            raise HandlerError(f"{problem}: {_INSTALL}") from error
        raise SparkStartError(problem) from error
    output = process.stderr
    version = java_version(output)
    if version is None and (process.returncode < 0 or "Error occurred during initialization of VM" in output):
        raise SparkStartError(f"Spark needs Java, and {java} has not started (it prints {output.strip()!r})")
    if version is None:
        raise HandlerError(f"Spark needs Java, and {java} prints no version (it prints {output.strip()!r}): {_INSTALL}")
    if version < OLDEST_JAVA:
        raise HandlerError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is Java {version}: {_INSTALL}")


def java_version(output: str) -> int | None:
    """Return the feature version in the output of `java -version` (8 for "1.8.0_292"); None if it has none."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None
