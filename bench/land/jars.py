"""The jars of Spark's Kafka source, collected by Maven from `pom.xml` into `build/bench/`, once a version of Spark."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.integration.peers.running import ROOT
from tests.integration.real_kafka import JarsError

POM = Path(__file__).with_name("pom.xml")

_DIRECTORY = ROOT / "build" / "bench"
_MAVEN_SECONDS = 600


def source_jars() -> tuple[Path, ...]:
    """Those that pyspark, of the version that is installed, has not. Raises JarsError.

    The first call downloads 10 MB. A directory of jars is complete or absent: Maven fills another, which then takes
    its name.
    """
    spark = version("pyspark")
    # The pom is part of the name, so that a change to it is a new directory.
    jars = _DIRECTORY / f"kafka-source-{spark}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"
    if not jars.is_dir():
        _DIRECTORY.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{jars.name}.", dir=_DIRECTORY) as unfinished:
            filled = Path(unfinished, "jars")
            _copy_dependencies(spark, filled)
            filled.rename(jars)
    return tuple(sorted(jars.glob("*.jar")))


def _copy_dependencies(spark: str, into: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError("Maven is missing: it collects Spark's Kafka source (Debian: apt-get install maven)")
    command = [maven, "--batch-mode", "--quiet", "--file", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-Dspark.version={spark}", f"-DoutputDirectory={into}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise JarsError(f"Maven did not collect Spark's Kafka source {spark} in {_MAVEN_SECONDS} s") from None
    if done.returncode != 0:
        raise JarsError(f"Maven could not collect Spark's Kafka source {spark}:\n{done.stdout}{done.stderr}")
