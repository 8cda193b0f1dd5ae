"""Jars that Maven downloads once, as listed in a pom, into the user's cache.

A directory of jars is either complete or absent: Maven fills a temporary directory, which is then renamed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_MAVEN_SECONDS = 600


class JarsError(Exception):
    """The jars could not be downloaded. The text has Maven's output."""


def maven_jars(what: str, pom: Path, version: str, cache: Path | None = None) -> Path:
    """Return a directory that has exactly the jars of `what`.

    The first call downloads them, in at most ten minutes. Later calls find the directory in the cache.

    Args:
        what: a name for the jars, part of the directory's name.
        pom: the pom that lists them.
        version: the value of the pom's property `wanted.version`.
        cache: the cache (default: `$XDG_CACHE_HOME/sarameya`).

    Raises:
        JarsError: Maven is missing, fails or takes too long.
    """
    cache = cache or user_cache()
    # The directory's name has a hash of the pom, so that a changed pom gets a new directory.
    jars = cache / f"{what}-{version}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"
    if jars.is_dir():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    # Only one Maven at a time: two would interfere. After the wait another process may have downloaded the jars.
    with (cache / "maven.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            with tempfile.TemporaryDirectory(prefix=f"{jars.name}.", dir=cache) as unfinished:
                filled = Path(unfinished, "jars")
                _copy_dependencies(what, pom, version, filled)
                _publish(filled, jars)
    return jars


def user_cache() -> Path:
    """Return the directory in which tests keep what they have downloaded or compiled."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sarameya"


def _copy_dependencies(what: str, pom: Path, version: str, into: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError(f"Maven is missing: it collects the jars of {what} (Debian: apt-get install maven)")
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-Dwanted.version={version}", f"-DoutputDirectory={into}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise JarsError(f"Maven did not collect {what} {version} in {_MAVEN_SECONDS} s") from None
    if done.returncode != 0:
        raise JarsError(f"Maven could not collect {what} {version}:\n{done.stdout}{done.stderr}")


def _publish(filled: Path, jars: Path) -> None:
    try:
        filled.rename(jars)
    except OSError:
        if not jars.is_dir():  # if it exists, another run has published the same jars meanwhile
            raise
