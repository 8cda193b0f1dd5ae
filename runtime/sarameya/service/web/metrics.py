"""The content of `/metrics`: metrics of reporting members, the age of each report, and `prometheus_client`'s registry.

The registry has the metrics that handlers register, and the library's own metrics of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sarameya.service.web.status_board import PageSource
from sarameya.telemetry.prometheus import GroupCollector

logger = logging.getLogger("sarameya")


class MetricsCollector(Collector):
    """Metrics of a board and of another collector: by default prometheus_client's registry."""

    def __init__(self, board: PageSource, others: Collector = REGISTRY) -> None:
        self._board = board
        self._members = GroupCollector(board.snapshots)
        self._others = others
        self._is_logged = False

    def collect(self) -> Iterator[Metric]:
        """Yield every metric. Our own metric replaces another one of the same name."""
        names = set[str]()
        for family in self.own():
            names.add(family.name)
            yield family
        yield from (family for family in self._registered() if family.name not in names)

    def own(self) -> Iterator[Metric]:
        """Yield our own metrics."""
        yield from self._members.collect()
        ages = GaugeMetricFamily(
            "sarameya_worker_heard_seconds",
            "Seconds since the worker's last report; after ten seconds, no other metric has rows for this worker.",
            labels=["group", "worker"],
            unit="seconds",
        )
        for group, worker, seconds in self._board.ages():
            ages.add_metric([group, str(worker)], seconds)
        yield ages

    def _registered(self) -> list[Metric]:
        """Return the registered metrics. A failing metric of a handler must not hide those of its group."""
        try:
            return list(self._others.collect())
        except Exception:
            if not self._is_logged:
                logger.exception("metrics that were registered with prometheus_client cannot be collected")
            self._is_logged = True
            return []
