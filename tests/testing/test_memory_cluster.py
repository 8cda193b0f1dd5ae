"""The test kit's cluster in memory, in virtual time, identical in each run."""

import trio
import trio.testing
from kafka.protocol.consumer import JoinGroupRequest

from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import decode, split
from sarameya.testing import VIRTUAL_EPOCH, memory_cluster
from tests.embedded.api_kit import request
from tests.embedded.wire_client import connected


async def test_records_are_dated_by_the_virtual_clock(autojump_clock: trio.testing.MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"at once")
        await trio.sleep(3600)
        cluster.produce("orders", 0, b"an hour later")
        partition = TopicPartition("orders", 0)
        timestamps = [
            message.timestamp
            for raw in split(cluster.log(*partition).read(0, 1 << 20), partition, 0)
            for message in decode(raw, partition)
        ]
        assert timestamps == [VIRTUAL_EPOCH * 1000, (VIRTUAL_EPOCH + 3600) * 1000]


async def test_ids_are_the_same_in_each_run() -> None:
    async def member_id() -> str:
        join = request(
            JoinGroupRequest,
            5,
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        async with memory_cluster() as cluster, connected(cluster) as client:
            return str((await client.ask(join)).member_id)

    assert await member_id() == await member_id()
