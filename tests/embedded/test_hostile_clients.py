"""Hostile clients over TCP and in memory: their connections close, others continue, and nothing grows."""

from __future__ import annotations

import logging
import struct
import tracemalloc
from contextlib import suppress
from random import Random

import pytest
import trio
import trio.testing
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.apis import MESSAGES
from sarameya.error_codes import ErrorCode
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec
from sarameya.testing import memory_cluster
from tests.embedded.api_kit import ApiKit, request
from tests.embedded.wire_client import connected
from tests.fuzz.messages import REQUESTS, made_up
from tests.fuzz.mutations import mutated
from tests.group.kit import Recorder, committed, fill, start_member

METADATA = request(MetadataRequest, 12, topics=[])


def made_up_frame(rng: Random) -> bytes:
    api, version = rng.choice(REQUESTS)
    tags = b"\0" if MESSAGES[api].flexible_version_q(version) else b""
    body = bytes(made_up(rng, MESSAGES[api], version).encode(version=version))
    frame = struct.pack(">hhih", api, version, 1, 2) + b"me" + tags + body
    return struct.pack(">i", len(frame)) + frame


def hostile_bytes(rng: Random) -> bytes:
    match rng.randrange(4):
        case 0:
            return rng.randbytes(rng.randrange(1, 500))
        case 1:
            noise = rng.randbytes(rng.randrange(200))
            return struct.pack(">i", len(noise)) + noise
        case 2:
            return mutated(rng, b"".join(made_up_frame(rng) for _ in range(3)))
        case _:
            frame = mutated(rng, made_up_frame(rng)[4:])
            return struct.pack(">i", len(frame)) + frame


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "tcp"])
async def test_group_continues_while_a_hundred_clients_send_garbage(
    in_memory: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rng = Random(28)

    async def attack() -> None:
        host, port = cluster.bootstrap_servers[0].rsplit(":", 1)
        with suppress(trio.BrokenResourceError):
            async with await cluster.transport.connect(host, int(port)) as stream:
                for _ in range(3):
                    await stream.send_all(hostile_bytes(rng))
                with trio.move_on_after(0.02):
                    while await stream.receive_some():
                        pass

    async with EmbeddedCluster({"mine": 1}, in_memory=in_memory) as cluster, trio.open_nursery() as nursery:
        with trio.fail_after(30):
            handler = Recorder()
            member = await start_member(nursery, cluster, handler, group="mine", topics=("mine",))
            for _ in range(10):
                fill(cluster, 1, topic="mine")
                async with trio.open_nursery() as attackers:
                    for _ in range(10):
                        attackers.start_soon(attack)
            await handler.received(10)
            await member.close()
            assert member.error is None
            assert committed(cluster, "mine") == {"mine-0": 10}
            async with connected(cluster) as other:
                await other.ask(METADATA)
    assert {record.levelno for record in caplog.records if record.name.startswith("sarameya.embedded")} == {
        logging.WARNING
    }


async def test_client_that_never_reads_does_not_block_others() -> None:
    async with EmbeddedCluster({"orders": 1000}) as cluster, connected(cluster) as silent, connected(cluster) as other:
        all_topics = request(MetadataRequest, 12, topics=None)
        with trio.move_on_after(1.0) as scope:
            for _ in range(10_000):  # responses of half a gigabyte in total
                await silent.send(all_topics)
        assert scope.cancelled_caught, "the broker has stopped reading"
        with trio.fail_after(5):
            await other.ask(METADATA)


async def test_announced_frame_allocates_only_received_bytes(autojump_clock: MockClock) -> None:
    async with memory_cluster() as cluster:
        tracemalloc.start()
        try:
            for _ in range(50):
                async with connected(cluster) as hostile:
                    await hostile.stream.send_all(struct.pack(">i", 100 * 2**20) + bytes(1000))
                    await trio.testing.wait_all_tasks_blocked()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5 * 2**20


@pytest.mark.parametrize("timestamp", [0, -3])
def test_timestamp_search_refuses_a_decompression_bomb(timestamp: int) -> None:
    """ListOffsets searches for timestamps inside batches, which a producer may fill with any bytes."""
    kit = ApiKit({"orders": 1})
    kit.cluster.append(
        kit.cluster.topics.partition("orders", 0), build([(0, None, bytes(100 * 2**20), ())], codec=Codec.ZSTD)
    )
    partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
    answer = kit.answer(
        request(ListOffsetsRequest, 7, replica_id=-1, topics=[{"name": "orders", "partitions": partitions}])
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE
