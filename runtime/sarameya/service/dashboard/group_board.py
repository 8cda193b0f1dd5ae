"""Looks at a group each two seconds, in Kafka and at its members' endpoints, and has ready what the page shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import trio

from sarameya.errors import SarameyaError
from sarameya.model import topic_partitions
from sarameya.net.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END
from sarameya.observe import log_event
from sarameya.protocol.described_groups import DEAD, DescribedGroup
from sarameya.protocol.metadata import Broker
from sarameya.service.dashboard.endpoints import Endpoints, ask_all
from sarameya.service.dashboard.merging import Kafkas, merged
from sarameya.service.dashboard.reading import Document
from sarameya.service.failures import needs_configuration
from sarameya.service.groups.arguments import Cluster
from sarameya.service.web.board import Looks
from sarameya.service.web.health import Health
from sarameya.service.web.series import Point, Series
from sarameya.telemetry.snapshot import MemberSnapshot

INTERVAL = 2.0


class GroupBoard(Looks):
    """As `web.board.Board`, of a group that this process is no member of."""

    def __init__(
        self, group: str, cluster: Cluster, endpoints: Endpoints, wall_clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._group = group
        self._cluster = cluster
        self._endpoints = endpoints
        self._wall_clock = wall_clock
        nobody = DescribedGroup(group, DEAD, Broker(-1, "", 0))
        nothing = merged(Kafkas(nobody, {}, {}), {}, wall_clock())
        self._document: Document = {**nothing, "reasons": ["Kafka has not answered yet"]}
        self._series = Series()
        self.show(self._document)

    async def run(self) -> None:
        """Look each while, until cancelled. Raises what no second look mends: AuthenticationError and its kin."""
        try:
            while True:
                await self._look_on()
                await trio.sleep(INTERVAL)
        finally:
            self.end()

    async def _look_on(self) -> None:
        """Look each while, for as long as Kafka answers."""
        cluster = self._cluster
        try:
            async with GroupAdmin(cluster.bootstrap_servers, cluster.config, log_event) as admin:
                while True:
                    await self.look(admin)
                    await trio.sleep(INTERVAL)
        except SarameyaError as error:
            if needs_configuration(error):
                raise
            self._show_without(str(error))

    async def look(self, admin: GroupAdmin) -> None:
        """Look once. Raises SarameyaError where Kafka does not answer."""
        group = await admin.describe(self._group)
        committed = {partition: commit.offset for partition, commit in (await admin.committed(self._group)).items()}
        assigned = [partition for member in group.members for partition in topic_partitions(member.assignment or {})]
        partitions = dict.fromkeys([*committed, *assigned])
        await admin.metadata(dict.fromkeys(partition.topic for partition in partitions))  # who leads them
        ends = (await admin.log_offsets(partitions, LOG_END)).found
        urls, refused = self._endpoints.of(group)
        services = {**await ask_all(urls, self._group), **refused}
        self._show(merged(Kafkas(group, committed, ends), services, self._wall_clock()))

    def _show_without(self, why: str) -> None:
        """What was seen last stands, and that it is old."""
        at = self._wall_clock()
        last = {**self._document, "at": at, "point": {**self._document["point"], "at": at}}
        self._show({**last, "ready": False, "reasons": [f"Kafka does not answer, this is of before: {why}"]})

    def _show(self, document: Document) -> None:
        point = document["point"]
        self._series.add(Point(point["at"], point["lag"], point["records"], point["landed"]))
        self._document = document
        self.show(document)

    def health(self) -> Health:
        """Of the group, as it was last seen."""
        return Health(tuple(self._document["reasons"]), ())

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """None: members' metrics are their services'."""
        return ()

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """None, likewise."""
        return ()

    def full_document(self) -> dict[str, Any]:
        """As it was last seen, with what is plotted."""
        return {**self._document, "points": self._series.columns}
