"""What `/metrics` says: of the members that are heard, and how long ago each worker was."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sarameya.service.web.board import Shown
from sarameya.telemetry.prometheus import GroupCollector


class Exposed(Collector):
    """Of a board."""

    def __init__(self, board: Shown) -> None:
        self._board = board
        self._members = GroupCollector(board.snapshots)

    def collect(self) -> Iterator[Metric]:
        """Every metric."""
        yield from self._members.collect()
        heard = GaugeMetricFamily(
            "sarameya_worker_heard_seconds",
            "How long ago it told of itself; after ten seconds, no other metric has rows of it.",
            labels=["group", "worker"],
        )
        for group, worker, seconds in self._board.ages():
            heard.add_metric([group, str(worker)], seconds)
        yield heard
