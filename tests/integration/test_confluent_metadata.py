"""Commit metadata between this client and confluent-kafka, which adds a NUL byte and reads up to one.

`Consumer.committed()` of confluent-kafka reads beyond the metadata of other clients' commits, and raises
UnicodeDecodeError or returns what is in memory there (librdkafka's issue 4649). Neither is deterministic, so the
tests cover only what works. See docs/coming-from-confluent-kafka.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
import trio
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from sarameya import Claim, Config, ConsumerGroup, ConsumerGroupHandler, GroupAdmin, Session, TopicPartition
from sarameya.embedded import EmbeddedCluster

pytestmark = pytest.mark.integration

ORDERS = TopicPartition("orders", 0)
SECONDS = 30.0


class CommitsWithMetadata(ConsumerGroupHandler):
    """Commits the first message with metadata, and closes the group."""

    def __init__(self, group: ConsumerGroup, metadata: str) -> None:
        self._group = group
        self._metadata = metadata

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message, self._metadata)
            await session.commit()
            self._group.close_nowait()
            return


async def commit(cluster: EmbeddedCluster, metadata: str) -> None:
    cluster.produce(*ORDERS, b"first")
    async with ConsumerGroup(cluster.bootstrap_servers, "g", Config(offset_initial="oldest")) as group:
        await group.consume(["orders"], CommitsWithMetadata(group, metadata))


async def in_confluent(cluster: EmbeddedCluster, use: Callable[[ConfluentConsumer], object]) -> object:
    """Call `use` with a consumer of the group, in a thread, so that the broker's event loop keeps running."""

    def run() -> object:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": ",".join(cluster.bootstrap_servers),
                "group.id": "g",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
            }
        )
        try:
            return use(consumer)
        finally:
            consumer.close()

    with trio.fail_after(2 * SECONDS):
        return await trio.to_thread.run_sync(run)


async def test_commit_without_metadata_is_read_by_confluent_kafka() -> None:
    def committed(consumer: ConfluentConsumer) -> object:
        (found,) = consumer.committed([ConfluentPartition(*ORDERS)], timeout=SECONDS)
        return found.offset, found.metadata

    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        await commit(cluster, "")
        assert await in_confluent(cluster, committed) == (1, None)


def _first_message(consumer: ConfluentConsumer) -> object:
    consumer.subscribe(["orders"])
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if (message := consumer.poll(0.5)) is not None:
            return message.error() or message.value()
    return None


async def test_confluent_kafka_continues_from_a_commit_with_metadata() -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        await commit(cluster, '{"link": 7}')
        cluster.produce(*ORDERS, b"second")
        assert await in_confluent(cluster, _first_message) == b"second"


async def test_group_admin_reads_metadata_unchanged() -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        await commit(cluster, '{"link": 7}')
        async with GroupAdmin(cluster.bootstrap_servers, Config(), lambda event: None) as admin:
            found = (await admin.committed("g"))[ORDERS]
        assert found is not None
        assert (found.offset, found.metadata) == (1, '{"link": 7}')


async def test_confluent_kafkas_metadata_ends_with_a_nul() -> None:
    """A failure may mean that confluent-kafka now reads other clients' metadata: then update the page named above."""
    offsets = [ConfluentPartition(*ORDERS, 5, "note")]
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        await in_confluent(cluster, partial(ConfluentConsumer.commit, offsets=offsets, asynchronous=False))
        assert cluster.committed("g")[ORDERS].metadata == "note\0"
