"""A member reads from the replica in its rack (KIP-392), chosen by three brokers of Apache Kafka in three racks."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest
import trio

from sarameya import Config, ConsumerGroup, Event, TopicPartition
from sarameya.net.transport import TcpTransport
from sarameya.observe import ReadReplicaChanged
from tests.group.kit import Recorder, Through
from tests.integration.real_kafka import Node, RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.real_kafka.replicas import await_all_in_sync, group_coordinated_by
from tests.transcripts.stage import RACKS

pytestmark = pytest.mark.integration

DEADLINE = 60.0
LEASE_SECONDS = 3.0
"""Time after which the member requests its nearest replica from the leader again."""
AT_ONCE_SECONDS = 2.0
"""The longest permitted time from the stop of the nearest replica until records that are sent afterwards are read.

Measured on two busy processors: 0.1 s.
"""
SIZE, COUNT = 10_000, 50
"""Size of a value in bytes, and number of records that are sent at a time."""


class CountingTransport(TcpTransport):
    """Counts the bytes that came from each port."""

    def __init__(self) -> None:
        self.received: Counter[int] = Counter()

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return CountingStream(await super().connect(host, port), self.received, port)


class CountingStream(Through):
    def __init__(self, stream: trio.abc.Stream, received: Counter[int], port: int) -> None:
        super().__init__(stream)
        self._received = received
        self._port = port

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        self._received[self._port] += len(data)
        return data


async def test_member_reads_from_its_rack_or_else_the_leader(
    real_kafka_of_three: RealKafka,
) -> None:
    kafka = real_kafka_of_three
    leader, near, _ = kafka.nodes
    partition = TopicPartition(kafka.create_topic("near", replicas=[[1, 2, 3]]), 0)
    config = Config(offset_initial="oldest", rack_id=RACKS[1], metadata_max_age=LEASE_SECONDS)
    transport, events, handler = CountingTransport(), list[Event](), Recorder()

    async def read_more(source: Node) -> None:
        """Send records, and check that the member reads them from this broker."""
        before, read = Counter(transport.received), len(handler.messages)
        records = [{"value": os.urandom(SIZE), "partition": partition.partition} for _ in range(COUNT)]
        await trio.to_thread.run_sync(send, kafka, partition.topic, records)
        await handler.received(read + COUNT)
        received = Counter(transport.received) - before
        assert received.pop(source.port) > COUNT * SIZE
        assert received.total() < COUNT * SIZE / 10

    def changes() -> list[int | None]:
        return [event.node_id for event in events if isinstance(event, ReadReplicaChanged)]

    with trio.fail_after(DEADLINE):
        group_id = group_coordinated_by(kafka, 3, "near")
        group = ConsumerGroup(kafka.bootstrap_servers, group_id, config, observers=[events.append], transport=transport)
        async with group, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, [partition.topic], handler)
            while changes() != [near.node_id]:
                await trio.sleep(0.02)
            await read_more(near)

            await trio.to_thread.run_sync(near.stop)
            stopped_at = time.monotonic()
            await read_more(leader)
            took = time.monotonic() - stopped_at
            print(f"read from the leader {took:.1f} s after the end of the nearest replica")
            assert took < AT_ONCE_SECONDS
            assert changes() == [near.node_id, None]

            near.start()
            await trio.to_thread.run_sync(await_all_in_sync, kafka)
            while changes() != [near.node_id, None, near.node_id]:
                await trio.sleep(0.02)
            await read_more(near)
            group.close_nowait()
    assert handler.offsets(*partition) == list(range(3 * COUNT))
