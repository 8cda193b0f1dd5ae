"""Jars that Maven collects by a pom, once, into the user's cache.

A directory of jars is either complete or absent: Maven fills a directory beside it, which then takes its name.
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
    """The jars could not be collected; the text has what Maven said."""


def maven_jars(what: str, pom: Path, version: str, cache: Path | None = None) -> Path:
    """The directory with the jars of `what`, and nothing else. Raises JarsError.

    `version` is the property `wanted.version` of the pom. The first call for it downloads (at most ten minutes); later
    ones find the directory in `cache` (default: `$XDG_CACHE_HOME/sarameya`).
    """
    cache = cache or _user_cache()
    # The pom is part of the name, so that a change to it is a new directory.
    jars = cache / f"{what}-{version}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"
    if jars.is_dir():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    # Two concurrent Mavens would disturb each other; after the wait the jars may be there.
    with (cache / "maven.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            with tempfile.TemporaryDirectory(prefix=f"{jars.name}.", dir=cache) as unfinished:
                filled = Path(unfinished, "jars")
                _copy_dependencies(what, pom, version, filled)
                _publish(filled, jars)
    return jars


def _user_cache() -> Path:
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
        if not jars.is_dir():  # else another run has published the same jars meanwhile
            raise
