"""A real schema registry for tests: `with RealRegistry(directory) as registry: registry.url`.

Apicurio's registry has Confluent's REST interface. It keeps schemas in memory, so they are lost with the process. Needs
Java 17 and Maven.
"""

from __future__ import annotations

import subprocess
import tarfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.integration.class_data import quick
from tests.integration.maven import maven_jars
from tests.integration.real_kafka.node import HOST, free_ports, java_program

_VERSION = "2.6.13.Final"
_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.2


class RegistryStartError(Exception):
    """The registry did not start; the text ends with the last lines of its log."""


class RealRegistry:
    """A registry that has started when the block is entered. `kill` and `start` keep the port, and lose all schemas."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Base URL of Confluent's paths."""
        return f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        (archive,) = maven_jars("registry", Path(__file__).with_name("pom.xml"), _VERSION).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(self._directory, filter="data")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process and wait until it answers. Raises RegistryStartError."""
        (runner,) = self._directory.glob("*-runner.jar")
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self._port),
            "quarkus.log.console.level": "WARN",
            "registry.logconfigjob.every": "3600s",
        }
        defined = [f"-D{name}={value}" for name, value in settings.items()]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [java_program(), *quick("registry"), "-Xmx256m", *defined, "-jar", str(runner)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the process at once: it has nothing to lose."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5.0):
                return
            time.sleep(_POLL_SECONDS)
        lines = self._log_file.read_text(errors="replace").splitlines()[-40:]
        raise RegistryStartError("the registry has not started:\n" + "\n".join(lines))

    @property
    def _log_file(self) -> Path:
        return self._directory / "registry.log"
