"""An OTLP receiver on a loopback port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import attrs
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@attrs.define
class Received:
    """Requests received at `url`, the value for OTEL_EXPORTER_OTLP_ENDPOINT."""

    url: str = ""
    metrics: list[ExportMetricsServiceRequest] = attrs.field(factory=list)
    traces: list[ExportTraceServiceRequest] = attrs.field(factory=list)
    is_broken: bool = False
    """True to respond with 400 and keep nothing."""


@contextmanager
def collector_listening() -> Iterator[Received]:
    """Run a collector inside the context."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if received.is_broken:
                self.send_error(400)
                return
            if self.path == "/v1/metrics":
                received.metrics.append(ExportMetricsServiceRequest.FromString(body))
            elif self.path == "/v1/traces":
                received.traces.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    received.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
