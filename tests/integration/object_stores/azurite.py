"""Microsoft's emulator of Azure Blob Storage: `with Azurite(directory) as azurite: azurite.make_container()`.

The program is installed once, by npm, into the user's cache.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import subprocess
import time
import urllib.error
import urllib.request
from email.utils import formatdate
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

from tests.integration.maven import user_cache
from tests.integration.real_kafka.node import HOST, free_ports

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's documented key."""

_API = "2021-08-06"
_INSTALL_SECONDS = 600.0
_START_SECONDS = 60.0
_POLL_SECONDS = 0.1


class AzuriteError(Exception):
    """The emulator could not be installed, or did not start. The text has its output."""


class Azurite:
    """An emulator, which runs while the `with` block does.

    Args:
        directory: The directory of its files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory / "azurite.log"
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """URL of the account."""
        return f"http://{HOST}:{self._port}/{ACCOUNT}"

    def set_environment(self, patch: pytest.MonkeyPatch, endpoint: str = "") -> None:
        """Set the variables for the account and its key; with another endpoint, such as a proxy's, if given."""
        patch.setenv("AZURE_STORAGE_ENDPOINT", endpoint or self.endpoint)
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)

    def make_container(self) -> str:
        """Make a new container. Return its URL."""
        name = f"c{uuid4().hex}"
        self._request("PUT", name, {"restype": "container"})
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        script = _installed()
        command = ["node", str(script), "--blobHost", HOST, "--blobPort", str(self._port), "--silent"]
        command += ["--location", str(self._directory), "--skipApiVersionCheck", "--disableTelemetry"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait_until_responding()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

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
                self._request("GET", "", {"comp": "list"})
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return
        raise AzuriteError("Azurite has not started:\n" + self._log.read_text(errors="replace")[-2000:])

    def _request(self, method: str, container: str, parameters: dict[str, str]) -> None:
        """Send a request without a body, signed with the account's key. Raises OSError."""
        date = formatdate(usegmt=True)
        signed = [f"/{ACCOUNT}/{ACCOUNT}/{container}", *(f"{name}:{value}" for name, value in parameters.items())]
        text = method + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_API}\n" + "\n".join(signed)
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        headers = {"x-ms-date": date, "x-ms-version": _API, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        request = urllib.request.Request(f"{self.endpoint}/{container}?{query}", method=method, headers=headers)
        urllib.request.urlopen(request, timeout=10.0).close()


def _installed() -> Path:
    """Return the emulator's script. The first call installs it."""
    directory = user_cache() / f"azurite-{VERSION}"
    script = directory / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "done"
    with (directory / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), f"azurite@{VERSION}"]
            run = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
            if run.returncode != 0:
                raise AzuriteError(f"{' '.join(command)} failed:\n{run.stdout}{run.stderr}")
            done.touch()
    return script
