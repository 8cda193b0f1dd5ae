"""OpenTelemetry's exporters over OTLP, with one log line when a collector is away and one when it is back.

By themselves they log two lines for each attempt, and metrics are sent every few seconds. Their text becomes the reason
in our line; with `--debug` it is logged as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from sarameya.errors import SarameyaError
from sarameya.telemetry.export_log import ExportLog

logger = logging.getLogger("sarameya")

OF_METRICS = OTLPMetricExporter.__module__
OF_SPANS = OTLPSpanExporter.__module__


class ExportError(SarameyaError):
    """An export has failed. The text is the exporter's own."""


class ExporterLog(logging.Filter):
    """The log lines of one export attempt, held back."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def begin(self) -> None:
        """Start an attempt."""
        self._lines.clear()

    @property
    def why(self) -> str:
        """The reason for the failure. The first line names it, the last one says that the exporter stopped."""
        return " ".join(dict.fromkeys([*self._lines[:1], *self._lines[-1:]])) or "the exporter does not say why"

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the line, and log it only at level debug."""
        self._lines.append(record.getMessage())
        return logger.isEnabledFor(logging.DEBUG)


class MetricExporter(OTLPMetricExporter):
    """An exporter that raises ExportError; `export_metrics` logs it."""

    def __init__(self, timeout: float | None, said: ExporterLog) -> None:
        super().__init__(timeout=timeout)
        self._said = said

    def export(self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any) -> Any:
        self._said.begin()
        if super().export(metrics_data, timeout_millis, **kwargs) is not MetricExportResult.SUCCESS:
            raise ExportError(self._said.why)
        return MetricExportResult.SUCCESS


class SpanExporter(OTLPSpanExporter):
    """An exporter that logs failures itself: a thread of the SDK calls it."""

    def __init__(self, timeout: float | None, said: ExporterLog) -> None:
        super().__init__(timeout=timeout)
        self._said = said
        self._spans = ExportLog("spans")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._said.begin()
        result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self._spans.worked()
        else:
            self._spans.failed(self._said.why)
        return result


@contextmanager
def exporter_log(module: str) -> Iterator[ExporterLog]:
    """Hold back the log lines of exporters in a module, for the length of the block."""
    said, log = ExporterLog(), logging.getLogger(module)
    log.addFilter(said)
    try:
        yield said
    finally:
        log.removeFilter(said)
