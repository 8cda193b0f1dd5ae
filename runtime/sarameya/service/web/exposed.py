"""What `/metrics` says: of the members that are heard, how long ago each worker was, and what else this process counts
by `prometheus_client`: its handlers' own metrics, and the library's of the process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sarameya.service.web.board import Shown
from sarameya.telemetry.prometheus import GroupCollector

logger = logging.getLogger("sarameya")


class Exposed(Collector):
    """Of a board, and of the `others`: prometheus_client's registry where nobody names one."""

    def __init__(self, board: Shown, others: Collector = REGISTRY) -> None:
        self._board = board
        self._members = GroupCollector(board.snapshots)
        self._others = others
        self._is_told = False

    def collect(self) -> Iterator[Metric]:
        """Every metric; of two by one name, ours."""
        names = set[str]()
        for family in self.own():
            names.add(family.name)
            yield family
        yield from (family for family in self._collected() if family.name not in names)

    def own(self) -> Iterator[Metric]:
        """Those that we have made."""
        yield from self._members.collect()
        heard = GaugeMetricFamily(
            "sarameya_worker_heard_seconds",
            "How long ago it told of itself; after ten seconds, no other metric has rows of it.",
            labels=["group", "worker"],
            unit="seconds",
        )
        for group, worker, seconds in self._board.ages():
            heard.add_metric([group, str(worker)], seconds)
        yield heard

    def _collected(self) -> list[Metric]:
        """What a handler has registered may fail, which is no reason to say nothing of its group."""
        try:
            return list(self._others.collect())
        except Exception:
            if not self._is_told:
                logger.exception("metrics that were registered with prometheus_client cannot be collected")
            self._is_told = True
            return []
