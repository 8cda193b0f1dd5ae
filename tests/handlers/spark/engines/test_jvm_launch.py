"""Launching and ending the JVM's process. A small script replaces Spark's own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sarameya_handlers.spark.engines.jvm import launch as jvm_launch
from sarameya_handlers.spark.engines.jvm.launch import end_process, launch
from sarameya_handlers.spark.engines.jvm.output import JvmOutput
from sarameya_handlers.spark.errors import SparkStartError

Script = Callable[[str], None]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Return a function that replaces `spark-submit` by shell text during a test."""

    def install(text: str) -> None:
        submit = tmp_path / "bin" / "spark-submit"
        submit.parent.mkdir(exist_ok=True)
        submit.write_text(f"#!/bin/sh\n{text}\n")
        submit.chmod(0o755)

    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(jvm_launch, "require_java", lambda: None)
    return install


class Launched:
    """A caller that records the process and counts its checks."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.checks = 0

    def launched(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def check(self) -> None:
        self.checks += 1

    def launch(self, conf: dict[str, str] | None = None, environment: dict[str, str] | None = None) -> Any:
        return launch((conf or {}).items(), JvmOutput("ERROR"), environment or {}, self.launched, self.check)


def test_jvm_exiting_early_is_reported_with_its_output(script: Script) -> None:
    script("echo 'Exception in thread main: no such master' >&2; exit 1")
    launched = Launched()
    with pytest.raises(SparkStartError, match="JVM does not start: Exception in thread main: no such master"):
        launched.launch()
    assert launched.process.returncode == 1


def test_conf_is_passed_as_arguments_and_secrets_by_environment(script: Script, tmp_path: Path) -> None:
    script(f'echo "$@" > {tmp_path}/arguments; echo "$TOKEN" > {tmp_path}/token; exit 1')
    with pytest.raises(SparkStartError):
        Launched().launch({"spark.master": "local[1]", "spark.a": "b c"}, {"TOKEN": "s3cret"})
    assert (tmp_path / "arguments").read_text() == "--conf spark.master=local[1] --conf spark.a=b c pyspark-shell\n"
    assert (tmp_path / "token").read_text() == "s3cret\n"
    assert "TOKEN" not in os.environ


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, ""),
        ({"LC_CTYPE": "C.utf8"}, ""),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "C.UTF-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, "C.UTF-8"),
    ],
    ids=str,
)
def test_fault_57_jvm_can_name_directories_in_unicode(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: dict[str, str], expected: str
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    script(f'echo "$LC_ALL" > {tmp_path}/locale; exit 1')
    with pytest.raises(SparkStartError):
        Launched().launch()
    assert (tmp_path / "locale").read_text().strip() == expected


def test_jvm_has_its_own_process_group(script: Script, tmp_path: Path) -> None:
    script(f"ps -o pgid= -p $$ > {tmp_path}/group; exit 1")
    launched = Launched()
    with pytest.raises(SparkStartError):
        launched.launch()
    assert int((tmp_path / "group").read_text()) == launched.process.pid


def test_abandoned_launch_leaves_no_process(script: Script) -> None:
    script("exec sleep 60")

    class Abandoned(Exception):
        pass

    class AbandoningCaller(Launched):
        def check(self) -> None:
            super().check()
            if self.checks == 3:
                raise Abandoned

    abandoning = AbandoningCaller()
    with pytest.raises(Abandoned):
        abandoning.launch()
    assert abandoning.process.returncode is not None


def test_jvm_killed_during_its_start_is_reported(script: Script) -> None:
    script("exec sleep 60")

    class Killing(Launched):
        def launched(self, process: subprocess.Popen[bytes]) -> None:
            super().launched(process)
            threading.Timer(0.1, process.kill).start()

    with pytest.raises(SparkStartError, match="was killed by signal 9 while it started; out of memory"):
        Killing().launch()


def test_gateway_address_does_not_stay_in_the_environment(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    # A port and a secret, as pyspark's gateway server writes them: an int, and a text after its length.
    script(
        'printf "\\000\\000\\037\\100\\000\\000\\000\\003abc" > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"\n'
        'mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"; exec cat'
    )
    connections: list[tuple[str, str]] = []

    class FakeGateway:
        proc: Any = None

    def launch_gateway() -> FakeGateway:
        connections.append((os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]))
        return FakeGateway()

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launch_gateway)
    launched = Launched()
    gateway = launched.launch()
    assert connections == [("8000", "abc")]
    assert "PYSPARK_GATEWAY_SECRET" not in os.environ
    assert gateway.proc is launched.process
    end_process(gateway.proc)
    gateway.remove_files()
    assert gateway.proc.returncode == 0


@pytest.mark.parametrize(
    ("timeout", "complaint"),
    [
        ("ANSWER_TIMEOUT", "No space left on device"),
        ("FAILED_TIMEOUT", 'Exception in thread "main" java.io.IOException: No space left on device'),
    ],
)
def test_fault_64_jvm_that_never_responds_is_killed(
    script: Script, monkeypatch: pytest.MonkeyPatch, timeout: str, complaint: str
) -> None:
    """A full /tmp does this: the main thread dies, and the gateway's threads keep the JVM alive."""
    monkeypatch.setattr(jvm_launch, timeout, 2.0)
    script(f"echo '{complaint}' >&2; exec sleep 60")
    launched = Launched()
    with pytest.raises(SparkStartError, match=f"neither answered nor ended and was killed: {complaint}"):
        launched.launch()
    assert launched.process is not None
    assert launched.process.returncode == -9


def test_process_that_does_not_exit_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jvm_launch, "END_TIMEOUT", 0.05)
    process = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
    began = time.monotonic()
    end_process(process)
    assert process.returncode == -9
    assert time.monotonic() - began < 30.0
    assert "is killed" in caplog.text
