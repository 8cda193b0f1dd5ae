"""OpenTelemetry's exporters over OTLP, which tell the log once that a collector is away, and once that it is back.

By themselves they have two lines for each try, and metrics are tried each few seconds. What they say is the reason that
we tell, and with `--debug` it is logged as well.
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
    """An exporter has failed; the text is what it says of that."""


class Said(logging.Filter):
    """What an exporter logs of one try, held back."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def begin(self) -> None:
        """A try begins."""
        self._lines.clear()

    @property
    def why(self) -> str:
        """Why it has failed. The first line tells what is the matter, the last one that it was given up."""
        return " ".join(dict.fromkeys([*self._lines[:1], *self._lines[-1:]])) or "the exporter does not say why"

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is logged."""
        self._lines.append(record.getMessage())
        return logger.isEnabledFor(logging.DEBUG)


class MetricExporter(OTLPMetricExporter):
    """Raises ExportError; `export_metrics` tells of it."""

    def __init__(self, timeout: float | None, said: Said) -> None:
        super().__init__(timeout=timeout)
        self._said = said

    def export(self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any) -> Any:
        self._said.begin()
        if super().export(metrics_data, timeout_millis, **kwargs) is not MetricExportResult.SUCCESS:
            raise ExportError(self._said.why)
        return MetricExportResult.SUCCESS


class SpanExporter(OTLPSpanExporter):
    """Tells of failures itself: it is asked by a thread of the SDK's."""

    def __init__(self, timeout: float | None, said: Said) -> None:
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
def said_by(module: str) -> Iterator[Said]:
    """What exporters of a module log, held back for the length of the block."""
    said, log = Said(), logging.getLogger(module)
    log.addFilter(said)
    try:
        yield said
    finally:
        log.removeFilter(said)
