"""The embedded broker of the test's process, which members reach over TCP: its logs and committed offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from sarameya import TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya_handlers.landing.links import ChainKey

TOPIC = "orders"
GROUP = "landing"
SINK = "sarameya"
MIN_SESSION_TIMEOUT = 1.0
"""The shortest session timeout that the broker accepts, in seconds. Kafka's default is six."""


@attrs.define
class Broker:
    """A broker with one topic, and a group that lands it."""

    cluster: EmbeddedCluster
    partitions: int
    _produced: int = 0

    @property
    def bootstrap_servers(self) -> list[str]:
        return self.cluster.bootstrap_servers

    def produce(self, count: int) -> None:
        """Produce `count` records to each partition, in two batches."""
        for partition in range(self.partitions):
            for part in (count // 2, count - count // 2):
                values = [(None, b"%d" % (self._produced + n)) for n in range(part)]
                self.cluster.produce_many(TOPIC, partition, values)
        self._produced += count

    @property
    def ends(self) -> dict[ChainKey, int]:
        """Return the log end of each partition, by its chain."""
        return {
            ChainKey(SINK, TOPIC, number): self.cluster.log(TOPIC, number).end_offset
            for number in range(self.partitions)
        }

    @property
    def committed(self) -> dict[ChainKey, int]:
        found = self.cluster.committed(GROUP)
        return {
            ChainKey(SINK, TOPIC, number): found[TopicPartition(TOPIC, number)].offset
            for number in range(self.partitions)
            if TopicPartition(TOPIC, number) in found
        }

    async def until_landed(self) -> None:
        """Wait until the group has committed all log ends."""
        while self.committed != self.ends:
            await trio.sleep(0.01)

    async def until_members(self, count: int) -> None:
        """Wait until the group has `count` members and is stable."""
        while True:
            group = self.cluster.describe_group(GROUP)
            if len(group.members) == count and (count == 0 or group.state is GroupState.STABLE):
                return
            await trio.sleep(0.01)

    def expire(self, member_id: str) -> None:
        """Expire a member's session now instead of after its timeout. Do nothing if it has expired already."""
        if self._has(member_id):
            self.cluster.expire_member(GROUP, member_id)

    async def until_expired(self, member_id: str) -> None:
        """Wait until the group has removed a member after its session timeout."""
        while self._has(member_id):
            await trio.sleep(0.01)

    def _has(self, member_id: str) -> bool:
        return any(member.member_id == member_id for member in self.cluster.describe_group(GROUP).members)


@asynccontextmanager
async def broker(partitions: int = 1) -> AsyncIterator[Broker]:
    async with EmbeddedCluster(
        topics={TOPIC: partitions}, groups=CoordinatorConfig(min_session_timeout=MIN_SESSION_TIMEOUT)
    ) as cluster:
        yield Broker(cluster, partitions)
