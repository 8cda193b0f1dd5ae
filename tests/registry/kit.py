"""A small schema registry for tests: Confluent's HTTP paths on loopback, schemas in memory, injected faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from sarameya.registry.client import Registry
from sarameya.registry.http import Answer
from sarameya.registry.options import RegistryOptions


def at(url: str, timeout: float = 5.0) -> RegistryOptions:
    return RegistryOptions(url=url, timeout=timeout)


class SmallRegistry:
    """A registry that serves the schemas of `register` at `url` while a `with` block runs.

    `fault` is called with each request. It returns the status and body to respond with, or None for the correct
    response. A redirection leads to `/elsewhere`. `requests` has the paths of all requests so far, `headers` the
    headers of the last request.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.headers: dict[str, str] = {}
        self.fault: Callable[[Any], tuple[int, bytes] | None] | None = None
        self._now = 0.0
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> RegistryOptions:
        return at(self.url)

    def register(self, subject: str, text: str, kind: str = "AVRO", references: list[Any] | None = None) -> int:
        """Add a schema to a subject. Return the schema's id, which is the same in all subjects."""
        schema = {"schema": text, "schemaType": kind, "references": references or []}
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the document of the correct response to a GET."""
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                if 0 < int(number) <= len(self._schemas):
                    return 200, self._schemas[int(number) - 1]
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            case ["subjects", subject, "versions", version]:
                versions = self._subjects.get(subject)
                if versions is None:
                    return 404, {"error_code": 40401, "message": f"Subject {subject!r} not found"}
                found = len(versions) if version == "latest" else int(version)
                if not 0 < found <= len(versions):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found"}
                number = versions[found - 1]
                return 200, {"subject": subject, "version": found, "id": number, **self._schemas[number - 1]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def post(self, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Return the status and the document of the correct response to a POST."""
        text, kind, references = body["schema"], body.get("schemaType", "AVRO"), body.get("references")
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["subjects", subject, "versions"]:
                return 200, {"id": self.register(subject, text, kind, references)}
            case ["subjects", subject]:
                for version, number in enumerate(self._subjects.get(subject, []), 1):
                    if self._schemas[number - 1] == {
                        "schema": text,
                        "schemaType": kind,
                        "references": references or [],
                    }:
                        return 200, {"subject": subject, "version": version, "id": number, **self._schemas[number - 1]}
                return 404, {"error_code": 40403 if subject in self._subjects else 40401, "message": "not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def client(self, options: RegistryOptions | None = None) -> Registry:
        """Return a client without a network and without pauses. `fault` is called with the URL."""
        options = options or at("http://small")
        return Registry(
            options, check=lambda: None, sleep=lambda seconds: None, clock=self._clock, request=self._request
        )

    def _clock(self) -> float:
        self._now += 10.0  # longer than any pause
        return self._now

    def _request(self, url: str, body: bytes | None) -> Answer:
        path = urlsplit(url).path
        self.requests.append(path)
        if self.fault is not None and (response := self.fault(url)) is not None:
            return Answer(*response)
        status, document = self.answer(path) if body is None else self.post(path, json.loads(body))
        return Answer(status, json.dumps(document).encode())

    def __enter__(self) -> Self:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._respond(lambda path: registry.post(path, json.loads(body)))

            def do_GET(self) -> None:
                self._respond(registry.answer)

            def _respond(self, answer: Callable[[str], tuple[int, dict[str, Any]]]) -> None:
                registry.requests.append(self.path)
                registry.headers = dict(self.headers.items())
                response = registry.fault(self) if registry.fault else None
                if response is None:
                    status, document = answer(urlsplit(self.path).path)
                    response = status, json.dumps(document).encode()
                self.send_response(response[0])
                self.send_header("Content-Length", str(len(response[1])))
                if 300 <= response[0] < 400:
                    self.send_header("Location", f"{registry.url}/elsewhere")
                self.end_headers()
                self.wfile.write(response[1])

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
