"""Sends requests, bounded in time and size. Blocking; can be cancelled between two pieces of the response."""

from __future__ import annotations

import base64
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import IO, Any

import attrs

from sarameya.errors import ConfigError, RegistryError
from sarameya.registry.options import RegistryOptions

MAX_BYTES = 16 * 2**20
"""Maximum size of a response. No schema is that long."""
_PIECE = 64 * 1024
_CONTENT = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_CONTENT}, application/json"


@attrs.frozen(slots=True)
class Answer:
    """A response."""

    status: int
    body: bytes


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a redirected request would carry the password or the token to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Http:
    """Sends requests with the options' credentials."""

    def __init__(self, options: RegistryOptions, check: Callable[[], None]) -> None:
        self._timeout = options.timeout
        self._check = check
        self._headers = {"Accept": _ACCEPT, "User-Agent": "sarameya", **_authorization(options)}
        try:
            context = ssl.create_default_context(cafile=options.ca_file)
        except OSError as error:
            raise ConfigError("registry.ca_file", options.ca_file, f"must hold certificates (PEM): {error}") from error
        self._opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))

    def request(self, url: str, body: bytes | None = None) -> Answer:
        """Return the response, whatever its status.

        Args:
            url: The URL.
            body: JSON to post; None for a GET.

        Raises:
            RegistryError: There was no response, or it did not end within the time-out.
        """
        deadline = time.monotonic() + self._timeout
        try:
            headers = self._headers if body is None else {**self._headers, "Content-Type": _CONTENT}
            with self._open(urllib.request.Request(url, body, headers)) as answer:
                return Answer(answer.status, self._read(answer, deadline))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryError(f"{url} does not answer: {type(reason).__name__}: {reason}") from error

    def _open(self, request: urllib.request.Request) -> Any:
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            return error  # also a response; it explains the error

    def _read(self, answer: IO[bytes], deadline: float) -> bytes:
        """Read the whole response by the deadline.

        A server that sends single bytes would reset the socket's time-out each time.
        """
        pieces, size = [], 0
        read = getattr(answer, "read1", answer.read)
        while piece := read(_PIECE):
            self._check()
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BYTES:
                raise OSError(f"the answer has more than {MAX_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the answer did not end within {self._timeout:g} s")
        return b"".join(pieces)


def _authorization(options: RegistryOptions) -> dict[str, str]:
    if options.token is not None:
        return {"Authorization": f"Bearer {options.token}"}
    if options.username is not None:
        pair = base64.b64encode(f"{options.username}:{options.password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}
