"""OpenTelemetry's exporters over OTLP, with one log line when a collector fails and one when it responds again.

The exporters themselves log two lines for each attempt, and metrics are sent every few seconds. Their text becomes the
reason in our line; with `--debug` it is logged as well.
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

METRICS_MODULE = OTLPMetricExporter.__module__
SPANS_MODULE = OTLPSpanExporter.__module__


class ExportError(SarameyaError):
    """An export has failed. The text is the exporter's own."""


class ExporterLog(logging.Filter):
    """The log lines of one export attempt, which are not logged."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def begin(self) -> None:
        """Start an attempt."""
        self._lines.clear()

    @property
    def why(self) -> str:
        """The reason for the failure. The first line names it, and the last one is about the end of the attempt."""
        return " ".join(dict.fromkeys([*self._lines[:1], *self._lines[-1:]])) or "the exporter gave no reason"

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the line, and log it only at level debug."""
        self._lines.append(record.getMessage())
        return logger.isEnabledFor(logging.DEBUG)


class MetricExporter(OTLPMetricExporter):
    """An exporter that raises ExportError, which `export_metrics` logs."""

    def __init__(self, timeout: float | None, log: ExporterLog) -> None:
        super().__init__(timeout=timeout)
        self._attempt_log = log

    def export(self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any) -> Any:
        self._attempt_log.begin()
        if super().export(metrics_data, timeout_millis, **kwargs) is not MetricExportResult.SUCCESS:
            raise ExportError(self._attempt_log.why)
        return MetricExportResult.SUCCESS


class SpanExporter(OTLPSpanExporter):
    """An exporter that logs failures itself: a thread of the SDK calls it."""

    def __init__(self, timeout: float | None, log: ExporterLog) -> None:
        super().__init__(timeout=timeout)
        self._attempt_log = log
        self._spans = ExportLog("spans")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._attempt_log.begin()
        result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self._spans.worked()
        else:
            self._spans.failed(self._attempt_log.why)
        return result


@contextmanager
def exporter_log(module: str) -> Iterator[ExporterLog]:
    """Hold back the log lines of exporters in a module, for the length of the block."""
    log, module_logger = ExporterLog(), logging.getLogger(module)
    module_logger.addFilter(log)
    try:
        yield log
    finally:
        module_logger.removeFilter(log)
