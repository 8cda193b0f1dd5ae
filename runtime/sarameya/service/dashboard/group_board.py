"""Looks at a group each two seconds, in Kafka and at its members' endpoints, and has ready what the page shows."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import trio

from sarameya.errors import SarameyaError
from sarameya.model import topic_partitions
from sarameya.net.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END
from sarameya.protocol.cluster.described_groups import DEAD, DescribedGroup
from sarameya.protocol.cluster.metadata import Broker
from sarameya.service.answering import log_asking
from sarameya.service.cluster_arguments import Cluster
from sarameya.service.dashboard.endpoints import Endpoints, ask_all
from sarameya.service.dashboard.merging import Kafkas, merged
from sarameya.service.dashboard.reading import Document
from sarameya.service.failures import is_permanent
from sarameya.service.web.health import Health
from sarameya.service.web.looks import Looks
from sarameya.service.web.series import Point, Series
from sarameya.telemetry.snapshot import MemberSnapshot

logger = logging.getLogger("sarameya")

INTERVAL = 2.0
_KAFKAS_PATIENCE = 8.0
"""Seconds after which what Kafka has said is told to be old."""


class GroupBoard(Looks):
    """As `web.board.Board`, of a group that this process is no member of.

    Kafka and the members' endpoints are asked each on its own: one that does not answer keeps nothing of the other
    back, and the page is told each while, if only of how old it is.
    """

    def __init__(
        self, group: str, cluster: Cluster, endpoints: Endpoints, wall_clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._group = group
        self._cluster = cluster
        self._endpoints = endpoints
        self._wall_clock = wall_clock
        self._series = Series()
        self._kafkas = Kafkas(DescribedGroup(group, DEAD, Broker(-1, "", 0)), {}, {})
        self._kafkas_at: float | None = None
        self._why = ""
        """Why Kafka has not answered, where it has said so."""
        self._document: Document = merged(self._kafkas, {}, wall_clock(), kafka_trouble="Kafka has not answered yet")
        self._seen_at = self._told_at = -math.inf
        self._tell()

    async def run(self) -> None:
        """Look each while, until cancelled. Raises what no second look mends: AuthenticationError and its kin."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look_at_kafka_on)
                nursery.start_soon(self._look_at_members_on)
                while True:
                    await trio.sleep(INTERVAL)
                    if trio.current_time() >= self._told_at + INTERVAL:
                        self._tell()
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
                if not self._why:  # told once each way, and not at each look
                    logger.warning("Kafka does not answer: %s", error)
                self._why = str(error)
            await trio.sleep(INTERVAL)

    async def look_at_kafka(self, admin: GroupAdmin) -> None:
        """Look once. Raises SarameyaError where it does not answer."""
        group = await admin.describe(self._group)
        committed = {partition: commit.offset for partition, commit in (await admin.committed(self._group)).items()}
        assigned = [partition for member in group.members for partition in topic_partitions(member.assignment or {})]
        partitions = dict.fromkeys([*committed, *assigned])
        await admin.metadata(dict.fromkeys(partition.topic for partition in partitions))  # who leads them
        ends = (await admin.log_offsets(partitions, LOG_END)).found
        if self._why:
            logger.info("Kafka answers again")
        self._kafkas, self._kafkas_at, self._why = Kafkas(group, committed, ends), trio.current_time(), ""

    async def _look_at_members_on(self) -> None:
        while True:
            await self.look_at_members()
            await trio.sleep(INTERVAL)

    async def look_at_members(self) -> None:
        """Look once, where Kafka has last said that they are; what is seen is the document."""
        urls, refused = self._endpoints.of(self._kafkas.group)
        services = {**await ask_all(urls, self._group), **refused}
        at = self._wall_clock()
        self._document = merged(self._kafkas, services, at, kafka_trouble=self._kafka_trouble())
        self._seen_at = trio.current_time()
        point = self._document["point"]
        self._series.add(Point(point["at"], point["lag"], point["records"], point["landed"], point["committed_lag"]))
        self._tell()

    def _kafka_trouble(self) -> str:
        """Empty where it has answered of late."""
        why = f": {self._why}" if self._why else ""
        if self._kafkas_at is None:
            return f"Kafka has not answered yet{why}"
        age = trio.current_time() - self._kafkas_at
        if not why and age <= _KAFKAS_PATIENCE:
            return ""
        return f"Kafka does not answer, and what is told of it is {age:.0f} s old{why}"

    def _tell(self) -> None:
        self._told_at = trio.current_time()
        age = trio.current_time() - self._seen_at if self._seen_at > -math.inf else 0.0
        said = self._document
        happened = {what: said[what] for what in ("events", "landings")}
        state = {what: value for what, value in said.items() if what not in happened} | {"age": round(age, 1)}
        key = [(row["host"], row["worker"], row["at"], row["number"]) for rows in happened.values() for row in rows]
        self.show(lambda: state, lambda: happened, key)

    def health(self) -> Health:
        """Of the group, as it was last seen."""
        return Health(tuple(self._document["reasons"]), (), tuple(self._document["explained"]))

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """None: members' metrics are their services'."""
        return ()

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """None, likewise."""
        return ()

    def full_document(self) -> dict[str, Any]:
        """As it was last seen, with what is plotted."""
        return {**self._document, "points": self._series.columns}
