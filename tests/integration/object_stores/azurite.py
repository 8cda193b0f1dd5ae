"""Microsoft's emulator of Azure Blob Storage: `with Azurite(directory) as azurite: azurite.make_bucket()`.

The program is installed once, by npm, into the user's cache.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.request
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from uuid import uuid4

from tests.integration.object_stores.server import StoreServer, installed_once, run_installer
from tests.integration.real_kafka.node import HOST

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's documented key."""

_API = "2021-08-06"
_INSTALL_SECONDS = 600.0


class Azurite(StoreServer):
    """An emulator."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._directory = directory

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}/{ACCOUNT}"

    def environment_at(self, endpoint: str) -> Mapping[str, str]:
        return {"AZURE_STORAGE_ENDPOINT": endpoint, "AZURE_STORAGE_ACCOUNT_KEY": KEY}

    def make_bucket(self) -> str:
        """Make a new container. Return its URL."""
        name = f"c{uuid4().hex}"
        self._send("PUT", name, {"restype": "container"})
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def _command(self) -> Sequence[str]:
        script = installed_once(f"azurite-{VERSION}", "node_modules/azurite/dist/src/blob/main.js", _install)
        command = ["node", str(script), "--blobHost", HOST, "--blobPort", str(self.port), "--silent"]
        return [*command, "--location", str(self._directory), "--skipApiVersionCheck", "--disableTelemetry"]

    def _request(self) -> None:
        self._send("GET", "", {"comp": "list"})

    def _send(self, method: str, container: str, parameters: dict[str, str]) -> None:
        """Send a request without a body, signed with the account's key. Raises OSError."""
        date = formatdate(usegmt=True)
        signed = [f"/{ACCOUNT}/{ACCOUNT}/{container}", *(f"{name}:{value}" for name, value in parameters.items())]
        text = method + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_API}\n" + "\n".join(signed)
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        headers = {"x-ms-date": date, "x-ms-version": _API, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        request = urllib.request.Request(f"{self.endpoint}/{container}?{query}", method=method, headers=headers)
        urllib.request.urlopen(request, timeout=10.0).close()


def _install(directory: Path) -> None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), f"azurite@{VERSION}"]
    run_installer(command, _INSTALL_SECONDS)
