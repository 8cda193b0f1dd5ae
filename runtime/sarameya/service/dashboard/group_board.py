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
from sarameya.service.output.command_result import log_asking
from sarameya.service.output.error_report import is_permanent
from sarameya.service.web.page_feed import PageFeed
from sarameya.service.web.time_series import Point, TimeSeries
from sarameya.telemetry.snapshot import MemberSnapshot

logger = logging.getLogger("sarameya")

INTERVAL = 2.0
_KAFKAS_PATIENCE = 8.0
"""Seconds after which Kafka's last answer is reported as old."""


class GroupBoard(PageFeed):
    """The content of the pages, as `web.status_board.StatusBoard` has it, for a group of other processes.

    Kafka and the endpoints are read independently: one that does not answer holds up nothing of the other. The page is
    updated in any case, if only with the age of its content.
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
        self._kafkas = KafkaView(DescribedGroup(group, DEAD, Broker(-1, "", 0)), {}, {})
        self._kafkas_at: float | None = None
        self._why = ""
        """The reason why Kafka has not answered, if known."""
        self._document: Document = merge_documents(
            self._kafkas, {}, wall_clock(), kafka_trouble="Kafka has not answered yet"
        )
        self._seen_at = self._published_at = -math.inf
        self._publish()

    async def run(self) -> None:
        """Update regularly, until cancelled.

        Raises:
            SarameyaError: A permanent error, such as AuthenticationError.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look_at_kafka_on)
                nursery.start_soon(self._look_at_members_on)
                while True:
                    await trio.sleep(INTERVAL)
                    if trio.current_time() >= self._published_at + INTERVAL:
                        self._publish()
        finally:
            self.end()

    async def _look_at_kafka_on(self) -> None:
        while True:
            try:
                async with GroupAdmin(self._cluster.bootstrap_servers, self._cluster.config, log_asking) as admin:
                    while True:
                        await self.look_at_kafka(admin)
                        await trio.sleep(INTERVAL)
            except SarameyaError as error:
                if is_permanent(error):
                    raise
                if not self._why:  # log it once for each outage, not at each attempt
                    logger.warning("Kafka does not answer: %s", error)
                self._why = str(error)
            await trio.sleep(INTERVAL)

    async def look_at_kafka(self, admin: GroupAdmin) -> None:
        """Read the group from Kafka once.

        Raises:
            SarameyaError: Kafka does not answer.
        """
        group = await admin.describe(self._group)
        committed = {partition: commit.offset for partition, commit in (await admin.committed(self._group)).items()}
        assigned = [partition for member in group.members for partition in topic_partitions(member.assignment or {})]
        partitions = dict.fromkeys([*committed, *assigned])
        await admin.metadata(dict.fromkeys(partition.topic for partition in partitions))  # who leads them
        ends = (await admin.log_offsets(partitions, LOG_END)).found
        if self._why:
            logger.info("Kafka answers again")
        self._kafkas, self._kafkas_at, self._why = KafkaView(group, committed, ends), trio.current_time(), ""

    async def _look_at_members_on(self) -> None:
        while True:
            await self.look_at_members()
            await trio.sleep(INTERVAL)

    async def look_at_members(self) -> None:
        """Look once, where Kafka has last said that they are; what is seen is the document."""
        urls, refused = self._endpoints.of(self._kafkas.group)
        services = {**await fetch_documents(urls, self._group), **refused}
        at = self._wall_clock()
        self._document = merge_documents(self._kafkas, services, at, kafka_trouble=self._kafka_trouble())
        self._seen_at = trio.current_time()
        point = self._document["point"]
        self._series.add(Point(point["at"], point["lag"], point["records"], point["landed"], point["committed_lag"]))
        self._publish()

    def _kafka_trouble(self) -> str:
        """Return why Kafka's part is old; empty if it has answered lately."""
        why = f": {self._why}" if self._why else ""
        if self._kafkas_at is None:
            return f"Kafka has not answered yet{why}"
        age = trio.current_time() - self._kafkas_at
        if not why and age <= _KAFKAS_PATIENCE:
            return ""
        return f"Kafka does not answer; its part of the page is {age:.0f} s old{why}"

    def _publish(self) -> None:
        self._published_at = trio.current_time()
        age = trio.current_time() - self._seen_at if self._seen_at > -math.inf else 0.0
        said = self._document
        happened = {what: said[what] for what in ("events", "landings")}
        state = {what: value for what, value in said.items() if what not in happened} | {"age": round(age, 1)}
        key = [(row["host"], row["worker"], row["at"], row["number"]) for rows in happened.values() for row in rows]
        self.publish(lambda: state, lambda: happened, key)

    def health(self) -> Health:
        """Return the health of the group at the last update."""
        return Health(tuple(self._document["reasons"]), (), tuple(self._document["explained"]))

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """Return nothing: the members' services serve their metrics."""
        return ()

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """Return nothing, as `snapshots`."""
        return ()

    def full_document(self) -> dict[str, Any]:
        """Return the document of the last update, with the plotted points."""
        return {**self._document, "points": self._series.columns}
