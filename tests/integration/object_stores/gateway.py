"""A gateway that speaks S3's protocol over a directory: `with Gateway(directory) as gateway: gateway.endpoint`.

The program is Versity's, compiled once into the user's cache. It needs Go and a file system with extended attributes.
"""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from tests.integration.object_stores.server import StoreServer, installed_once, run_installer
from tests.integration.real_kafka.node import HOST

VERSION = "v1.8.0"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_COMPILE_SECONDS = 1800.0
_POLL_SECONDS = 0.1
ACCESS_KEY = "tests"
SECRET_KEY = "secret-of-tests"
REGION = "us-east-1"


class Gateway(StoreServer):
    """A gateway."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.buckets = directory / "buckets"
        """Directory of the buckets. Each bucket is a directory."""
        self.buckets.mkdir(parents=True, exist_ok=True)
        self._access_log = directory / "access.log"

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def environment_at(self, endpoint: str) -> Mapping[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": endpoint,
        }

    def make_bucket(self, name: str = "") -> str:
        """Make a new bucket, of any name by default. Return its URL."""
        name = name or f"b{uuid4().hex}"
        (self.buckets / name).mkdir(parents=True)
        return f"s3://{name}"

    def requests(self, bucket: str) -> Counter[str]:
        """Return the requests to a bucket so far, by operation (`PutObject`)."""
        pattern = re.compile(rf" s3_(\w+) \S+ /{bucket}[/?\s]")
        return Counter(pattern.findall(self._access_log.read_text()))

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

    def _command(self) -> Sequence[str]:
        program = installed_once(f"versitygw-{VERSION}", "versitygw", _compile)
        command = [str(program), "--port", f"{HOST}:{self.port}", "--region", REGION]
        command += ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--access-log", str(self._access_log)]
        return [*command, "posix", str(self.buckets)]

    def _request(self) -> None:
        with suppress(urllib.error.HTTPError):  # access denied
            urllib.request.urlopen(self.endpoint, timeout=5.0).close()


def _compile(directory: Path) -> None:
    run_installer(["go", "install", f"{_MODULE}@{VERSION}"], _COMPILE_SECONDS, {**os.environ, "GOBIN": str(directory)})
