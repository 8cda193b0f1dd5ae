"""Programs that serve an object store to the tests: what Azurite and the S3 gateway have in common."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.integration.maven import user_cache
from tests.integration.real_kafka.node import free_ports

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1


class StoreServerError(Exception):
    """The program could not be installed, or did not start. The text has its output."""


class StoreServer(ABC):
    """A program that serves an object store, and runs while the `with` block does. Its objects outlive it.

    Args:
        directory: The directory of its files.
    """

    def __init__(self, directory: Path) -> None:
        self.port = free_ports(1)[0]
        self._log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """URL of the store."""

    @abstractmethod
    def environment_at(self, endpoint: str) -> Mapping[str, str]:
        """Return the variables with which the cloud's tools find this URL of the store, and their credentials."""

    @abstractmethod
    def make_bucket(self) -> str:
        """Make a new bucket. Return its URL."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command of the program, which is installed if it has to be."""

    @abstractmethod
    def _request(self) -> None:
        """Send a request that shows whether the program responds. Raises OSError if it does not."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables for this server itself."""
        return self.environment_at(self.endpoint)

    def set_environment(self, patch: pytest.MonkeyPatch, endpoint: str = "") -> None:
        """Set the variables in this process; with another endpoint, such as a proxy's, if given."""
        for name, value in self.environment_at(endpoint or self.endpoint).items():
            patch.setenv(name, value)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        """True if it was started, and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start the process and wait until it responds. Raises StoreServerError."""
        command = self._command()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait_until_responding()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process. The stored objects stay in the directory."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_responding(self) -> None:
        assert self._process is not None
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self._request()
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return
        text = self._log.read_text(errors="replace")[-2000:]
        raise StoreServerError(f"{type(self).__name__} has not started:\n{text}")


def installed_once(name: str, program: str, install: Callable[[Path], None]) -> Path:
    """Return a program in a directory of the user's cache. The first call installs it; others wait meanwhile.

    Args:
        name: The directory's name, with the program's version.
        program: The program, relative to the directory.
        install: Installs into an empty directory, which is then renamed.
    """
    directory = user_cache() / name
    if not (directory / program).exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with directory.with_name(f"{name}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / program).exists():
                unfinished = directory.with_name(f"{name}.unfinished")
                for left in (unfinished, directory):
                    shutil.rmtree(left, ignore_errors=True)
                unfinished.mkdir()
                install(unfinished)
                unfinished.rename(directory)
    return directory / program


def run_installer(command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> None:
    """Run a command that installs a program. Raises StoreServerError."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise StoreServerError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
