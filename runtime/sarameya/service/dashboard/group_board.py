"""The content of the dashboard: reads a group from Kafka and from its members' endpoints every two seconds."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import trio

from sarameya.errors import SarameyaError
from sarameya.model import topic_partitions
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END
from sarameya.protocol.cluster.described_groups import DEAD, DescribedGroup
from sarameya.protocol.cluster.metadata import Broker
from sarameya.service.app.cluster_arguments import Cluster
from sarameya.service.dashboard.endpoint_document import Document
from sarameya.service.dashboard.endpoints import MemberEndpoints, fetch_documents
from sarameya.service.dashboard.group_document import KafkaView, merge_documents
from sarameya.service.monitor.health import Health
from sarameya.service.output.command_result import log_client_event
from sarameya.service.output.error_report import is_permanent
from sarameya.service.web.page_feed import PageFeed
from sarameya.service.web.time_series import Point, TimeSeries
from sarameya.telemetry.snapshot import MemberSnapshot

logger = logging.getLogger("sarameya")

INTERVAL = 2.0
_KAFKA_MAX_AGE = 8.0
"""Seconds after which Kafka's last answer is reported as old."""


class GroupBoard(PageFeed):
    """The content of the pages for a group in other processes: a `web.status_board.PageSource`.

    Kafka and the endpoints are read independently: if one does not answer, the other is not delayed. The page is
    updated in any case, even if only the age of its content is new.
    """

    def __init__(
        self, group: str, cluster: Cluster, endpoints: MemberEndpoints, wall_clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._group = group
        self._cluster = cluster
        self._endpoints = endpoints
        self._wall_clock = wall_clock
        self._series = TimeSeries()
        self._kafka_view = KafkaView(DescribedGroup(group, DEAD, Broker(-1, "", 0)), {}, {})
        self._kafka_view_at: float | None = None
        self._kafka_error = ""
        """The error of the last read of Kafka. Empty if it succeeded, or before the first."""
        self._document: Document = merge_documents(
            self._kafka_view, {}, wall_clock(), kafka_trouble="Kafka has not answered yet"
        )
        self._document_at = self._published_at = -math.inf
        self._publish()

    async def run(self) -> None:
        """Update regularly, until cancelled.

        Raises:
            SarameyaError: A permanent error, such as AuthenticationError.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_kafka_regularly)
                nursery.start_soon(self._read_members_regularly)
                while True:
                    await trio.sleep(INTERVAL)
                    if trio.current_time() >= self._published_at + INTERVAL:
                        self._publish()
        finally:
            self.end()

    async def _read_kafka_regularly(self) -> None:
        while True:
            try:
                async with GroupAdmin(self._cluster.bootstrap_servers, self._cluster.config, log_client_event) as admin:
                    while True:
                        await self.read_kafka(admin)
                        await trio.sleep(INTERVAL)
            except SarameyaError as error:
                if is_permanent(error):
                    raise
                if not self._kafka_error:  # log it once for each outage, not at each attempt
                    logger.warning("Kafka does not answer: %s", error)
                self._kafka_error = str(error)
            await trio.sleep(INTERVAL)

    async def read_kafka(self, admin: GroupAdmin) -> None:
        """Read the group from Kafka once.

        Raises:
            SarameyaError: Kafka does not answer.
        """
        group = await admin.describe(self._group)
        committed = {partition: commit.offset for partition, commit in (await admin.committed(self._group)).items()}
        assigned = [partition for member in group.members for partition in topic_partitions(member.assignment or {})]
        partitions = dict.fromkeys([*committed, *assigned])
        await admin.metadata(dict.fromkeys(partition.topic for partition in partitions))  # their leaders
        ends = (await admin.log_offsets(partitions, LOG_END)).found
        if self._kafka_error:
            logger.info("Kafka answers again")
        self._kafka_view, self._kafka_view_at = KafkaView(group, committed, ends), trio.current_time()
        self._kafka_error = ""

    async def _read_members_regularly(self) -> None:
        while True:
            await self.read_members()
            await trio.sleep(INTERVAL)

    async def read_members(self) -> None:
        """Request all endpoints once, and publish the merged document."""
        urls, refused = self._endpoints.of(self._kafka_view.group)
        services = {**await fetch_documents(urls, self._group), **refused}
        at = self._wall_clock()
        self._document = merge_documents(self._kafka_view, services, at, kafka_trouble=self._kafka_trouble())
        self._document_at = trio.current_time()
        point = self._document["point"]
        self._series.add(Point(point["at"], point["lag"], point["records"], point["landed"], point["committed_lag"]))
        self._publish()

    def _kafka_trouble(self) -> str:
        """Return the reason why Kafka's part of the page is old. Empty if Kafka has answered lately."""
        why = f": {self._kafka_error}" if self._kafka_error else ""
        if self._kafka_view_at is None:
            return f"Kafka has not answered yet{why}"
        age = trio.current_time() - self._kafka_view_at
        if not why and age <= _KAFKA_MAX_AGE:
            return ""
        return f"Kafka does not answer; its part of the page is {age:.0f} s old{why}"

    def _publish(self) -> None:
        self._published_at = trio.current_time()
        age = trio.current_time() - self._document_at if self._document_at > -math.inf else 0.0
        history = {name: self._document[name] for name in ("events", "landings")}
        state = {name: value for name, value in self._document.items() if name not in history}
        state["age"] = round(age, 1)
        key = [(row["host"], row["worker"], row["at"], row["number"]) for rows in history.values() for row in rows]
        self.publish(lambda: state, lambda: history, key)

    def health(self) -> Health:
        """Return the health of the group at the last update."""
        return Health(tuple(self._document["reasons"]), (), tuple(self._document["explained"]))

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """Return nothing: the members' services serve their metrics."""
        return ()

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """Return nothing, for the same reason as `snapshots`."""
        return ()

    def full_document(self) -> dict[str, Any]:
        """Return the document of the last update, with the plotted points."""
        return {**self._document, "points": self._series.columns}
