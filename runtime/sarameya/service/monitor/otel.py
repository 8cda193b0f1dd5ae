"""Metrics and spans for an OpenTelemetry collector: `[service] otel = true`.

OTEL_EXPORTER_OTLP_ENDPOINT names the collector (OTLP over HTTP); OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES name
this service. Each process sends the data of its own members.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from sarameya.errors import ConfigError
from sarameya.extras import install_command
from sarameya.service.app.app_file import App
from sarameya.telemetry.snapshot import MemberSnapshot

if TYPE_CHECKING:
    from sarameya.telemetry.otel_tracing import Tracing

EXPORT_TIMEOUT = 3.0
"""Seconds for one export with all its attempts, unless OTEL_EXPORTER_OTLP_TIMEOUT is set.

A collector that does not answer delays the end of the service by this time at most.
"""
_TIMEOUT_VARIABLE = "OTEL_EXPORTER_OTLP_TIMEOUT"


def identity(group: str) -> dict[str, str | int]:
    """Return the resource attributes of this process.

    Each process of a service is a separate instance. The id is random, since in containers all processes may have the
    process id 1 and the same host name.
    """
    return {
        "service.name": f"sarameya {group}",
        "service.instance.id": str(uuid.uuid4()),
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }


@asynccontextmanager
async def open_otel(
    app: App, snapshots: Callable[[], Sequence[MemberSnapshot]]
) -> AsyncIterator[Callable[[], list[Tracing]]]:
    """Send metrics and spans for the length of the block.

    Yields:
        A function that makes a member's tracing. It returns an empty list if otel is off.

    Raises:
        ConfigError: The packages for OpenTelemetry are not installed.
    """
    if not app.service.otel:
        yield list
        return
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from sarameya.service.monitor.otel_exporters import (
            METRICS_MODULE,
            SPANS_MODULE,
            MetricExporter,
            SpanExporter,
            exporter_log,
        )
        from sarameya.telemetry.otel_metrics import export_metrics, resource_of
        from sarameya.telemetry.otel_tracing import Tracing
        from sarameya.telemetry.prometheus import GroupCollector
    except ImportError as error:
        remedy = f"needs more packages ({error}): {install_command('otel')}"
        raise ConfigError("service.otel", True, remedy) from None
    resource = resource_of(identity(app.group))
    timeout = None if _TIMEOUT_VARIABLE in os.environ else EXPORT_TIMEOUT
    with exporter_log(METRICS_MODULE) as metrics_log, exporter_log(SPANS_MODULE) as spans_log:
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(SpanExporter(timeout, spans_log)))
        exporter = MetricExporter(timeout, metrics_log)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(export_metrics, GroupCollector(snapshots), exporter, resource=resource))
                try:
                    yield lambda: [Tracing(provider)]
                finally:
                    nursery.cancel_scope.cancel()
                    # The last spans are sent at the same time as the last metrics.
                    with trio.CancelScope(shield=True):
                        await trio.to_thread.run_sync(provider.shutdown)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(exporter.shutdown)
