"""A gateway that speaks S3's protocol over a directory: `with Gateway(directory) as gateway: gateway.endpoint`.

The program is Versity's, compiled once into the user's cache. It needs Go and a file system with extended attributes.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

from tests.integration.maven import user_cache
from tests.integration.real_kafka.node import HOST, free_ports

VERSION = "v1.8.0"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_COMPILE_SECONDS = 1800.0
_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
ACCESS_KEY = "tests"
SECRET_KEY = "secret-of-tests"
REGION = "us-east-1"


class GatewayError(Exception):
    """The gateway could not be compiled, or did not start. The text has its output."""


class Gateway:
    """A gateway, which runs while the `with` block does.

    Args:
        directory: The directory of its files.
    """

    def __init__(self, directory: Path) -> None:
        self.buckets = directory / "buckets"
        """Directory of the buckets. Each bucket is a directory."""
        self._log = directory / "gateway.log"
        self._access_log = directory / "access.log"
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """URL of the gateway."""
        return f"http://{HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which AWS's tools find the gateway and their credentials."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def set_environment(self, patch: pytest.MonkeyPatch, endpoint: str = "") -> None:
        """Set the variables of `environment` in this process; with another endpoint, such as a proxy's, if given."""
        for name, value in self.environment.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", endpoint or self.endpoint)

    def make_bucket(self, name: str = "") -> str:
        """Make a new bucket, of any name by default. Return its URL."""
        name = name or f"b{uuid4().hex}"
        (self.buckets / name).mkdir(parents=True)
        return f"s3://{name}"

    def requests(self, bucket: str) -> Counter[str]:
        """Return the requests to a bucket so far, by operation (`PutObject`)."""
        pattern = re.compile(rf" s3_(\w+) \S+ /{bucket}[/?\s]")
        return Counter(pattern.findall(self._access_log.read_text()))

    def __enter__(self) -> Self:
        self.buckets.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        """True if it was started, and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start the process and wait until it responds. Raises GatewayError."""
        command = [str(_compiled()), "--port", f"{HOST}:{self._port}", "--region", REGION]
        command += ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--access-log", str(self._access_log)]
        command += ["posix", str(self.buckets)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait_until_responding()
        except BaseException:
            self.kill()
            raise

    def freeze(self) -> None:
        """Stop the process by SIGSTOP: it accepts connections, and sends no response."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # On a busy machine a thread may continue for a moment, and respond.
        tasks = Path(f"/proc/{self._process.pid}/task")
        while any((task / "stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
            time.sleep(_POLL_SECONDS / 10)

    def thaw(self) -> None:
        """Let the process continue with the requests it has received."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

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
                urllib.request.urlopen(self.endpoint, timeout=5.0).close()
            except urllib.error.HTTPError:
                return  # access denied
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return
        raise GatewayError("the gateway has not started:\n" + self._log.read_text(errors="replace")[-2000:])


def _compiled() -> Path:
    """Return the gateway's program. The first call compiles it."""
    directory = user_cache() / f"versitygw-{VERSION}"
    program = directory / "versitygw"
    if program.exists():
        return program
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            environment = {**os.environ, "GOBIN": str(directory / "unfinished")}
            command = ["go", "install", f"{_MODULE}@{VERSION}"]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
            )
            if done.returncode != 0:
                raise GatewayError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
            (directory / "unfinished" / "versitygw").rename(program)
    return program
