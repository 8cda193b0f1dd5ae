"""The jars of one Kafka version, collected by Maven from `pom.xml` into the user's cache, once.

A directory of jars is either complete or absent: Maven fills a directory beside it, which then takes its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.1.0"
KAFKA_3_VERSION = "3.9.1"
"""The last line of Kafka 3, whose brokers have the old group coordinator."""

_POM = Path(__file__).with_name("pom.xml")
_MAVEN_SECONDS = 600


class JarsError(Exception):
    """The jars could not be collected; the text has what Maven said."""


def kafka_jars(version: str = KAFKA_VERSION, cache: Path | None = None) -> Path:
    """The directory with the jars of Kafka `version` and nothing else. Raises JarsError.

    The first call for a version downloads some 50 MB (at most ten minutes); later ones find the directory
    in `cache` (default: `$XDG_CACHE_HOME/sarameya`).
    """
    cache = cache or _user_cache()
    # The pom is part of the name, so that a change to it is a new directory.
    pom = hashlib.sha256(_POM.read_bytes()).hexdigest()[:8]
    jars = cache / f"kafka-{version}-{pom}"
    if not jars.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{jars.name}.", dir=cache) as unfinished:
            filled = Path(unfinished, "jars")
            _copy_dependencies(version, filled)
            _publish(filled, jars)
    return jars


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sarameya"


def _copy_dependencies(version: str, into: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError("Maven is missing: it collects Kafka's jars (Debian: apt-get install maven)")
    command = [maven, "--batch-mode", "--quiet", "--file", str(_POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-Dkafka.version={version}", f"-DoutputDirectory={into}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise JarsError(f"Maven did not collect Kafka {version} in {_MAVEN_SECONDS} s") from None
    if done.returncode != 0:
        raise JarsError(f"Maven could not collect Kafka {version}:\n{done.stdout}{done.stderr}")


def _publish(filled: Path, jars: Path) -> None:
    try:
        filled.rename(jars)
    except OSError:
        if not jars.is_dir():  # else another test run has published the same jars meanwhile
            raise
