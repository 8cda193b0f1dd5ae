from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sarameya import HandlerError
from sarameya_handlers.spark.engines import requirements


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_java_version_is_parsed(output: str, version: int | None) -> None:
    assert requirements.java_version(output) == version


def java_home(directory: Path, script: str) -> str:
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(directory)


def test_missing_java_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HandlerError, match=r"there is none on this machine: install Java 17 \(Debian, .*JAVA_HOME"):
        requirements.require_java()


def test_java_home_without_java_names_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HandlerError, match=f"{tmp_path}/bin/java cannot be run .*No such file"):
        requirements.require_java()


def test_old_java_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, """echo 'openjdk version "11.0.2"' >&2"""))
    with pytest.raises(HandlerError, match=f"needs Java 17 or newer, and {tmp_path}/bin/java is Java 11: install"):
        requirements.require_java()


def test_unparsable_java_version_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, "echo 'no runtime present' >&2; exit 1"))
    with pytest.raises(HandlerError, match=r"prints no version .*no runtime present"):
        requirements.require_java()


def test_new_enough_java_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, """echo 'openjdk version "17.0.1"' >&2"""))
    requirements.require_java()


CHECK_JAVA = """
import signal
from sarameya_handlers.spark.engines.requirements import require_java
signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
require_java()
"""


def test_ctrl_c_does_not_reach_the_java_process(tmp_path: Path) -> None:
    for name in ("started", "answer"):
        os.mkfifo(tmp_path / name)
    home = java_home(tmp_path, f"echo started > {tmp_path}/started; head -n 1 {tmp_path}/answer >&2")
    # Opened for reading and writing, so that opening does not wait for Java.
    with (
        (tmp_path / "started").open("r+b", buffering=0) as started,
        (tmp_path / "answer").open("r+b", buffering=0) as answer,
        subprocess.Popen(
            [sys.executable, "-c", CHECK_JAVA],
            env={**os.environ, "JAVA_HOME": home},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            assert select.select([started], [], [], 30.0)[0], "Java was not run"
            os.killpg(process.pid, signal.SIGINT)
            assert process.stdout.readline() == "heard\n"
            answer.write(b'openjdk version "17.0.1"\n')
            _, errors = process.communicate(timeout=30)
            assert (process.returncode, errors) == (0, "")
        finally:
            process.kill()


@pytest.mark.parametrize("package", ["pyspark.sql", "pyarrow"])
def test_missing_package_error_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(HandlerError, match=rf"needs pyspark and pyarrow \(.*{package}.*\): pip install .*pyspark"):
        requirements.require_packages()
