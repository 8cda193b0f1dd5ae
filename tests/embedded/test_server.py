"""Connections: order, held requests, every kind of end, garbage. In memory and in virtual time, and over TCP."""

import logging
import struct
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, JoinGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest

from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.apis import SERVED_VERSIONS
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from sarameya.testing import memory_cluster
from tests.embedded.api_kit import batch, request, values
from tests.embedded.wire_client import WireClient, connected

METADATA = request(MetadataRequest, 12, topics=[])


def fetch(offset: int = 0, max_wait: float = 30) -> Any:
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": "orders", "partitions": partitions}]
    return request(
        FetchRequest, 12, max_wait_ms=int(max_wait * 1000), min_bytes=1, topics=topics, forgotten_topics_data=[]
    )


def records(answer: Any) -> list[bytes | None]:
    return values(answer.responses[0].partitions[0].records)


def produce(value: bytes, acks: int = -1) -> Any:
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch(value)}]}]
    return request(ProduceRequest, 9, acks=acks, timeout_ms=1000, topic_data=data)


def join(member_id: str = "", version: int = 3) -> Any:
    return request(
        JoinGroupRequest,
        version,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


class TestLongPoll:
    async def test_empty_fetch_takes_exactly_its_thirty_seconds(self, autojump_clock: trio.testing.MockClock) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as client:
            started = trio.current_time()
            assert records(await client.ask(fetch(max_wait=30))) == []
            assert trio.current_time() - started == 30

    async def test_produce_answers_a_held_fetch_at_once(self, autojump_clock: trio.testing.MockClock) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as client:
            started = trio.current_time()
            await client.send(fetch(max_wait=30))
            await trio.sleep(12.5)
            cluster.produce("orders", 0, b"now")
            assert records(await client.receive()) == [b"now"]
            assert trio.current_time() - started == 12.5

    async def test_shorter_deadline_after_a_longer_one_is_kept(self, autojump_clock: trio.testing.MockClock) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as slow, connected(cluster) as quick:
            await slow.send(fetch(max_wait=30))
            await trio.sleep(1)
            await quick.ask(fetch(max_wait=2))
            assert trio.current_time() == 3


class TestOrder:
    async def test_pipelined_requests_are_answered_in_their_order(self) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as client:
            for value in (b"a", b"b", b"c"):
                await client.send(produce(value))
            offsets = [(await client.receive()).responses[0].partition_responses[0].base_offset for _ in range(3)]
            assert offsets == [0, 1, 2]

    async def test_held_request_blocks_only_its_own_connection(self, autojump_clock: trio.testing.MockClock) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as one, connected(cluster) as other:
            await one.send(fetch(max_wait=30))
            await one.send(METADATA)
            await other.ask(METADATA)
            assert trio.current_time() == 0
            await one.receive()
            await one.receive()
            assert trio.current_time() == 30

    async def test_produce_without_acks_gets_no_response_and_is_stored(self) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as client:
            await client.send(produce(b"quiet", acks=0))
            assert (await client.ask(METADATA)).cluster_id
            assert cluster.log("orders", 0).end_offset == 1

    async def test_request_received_byte_by_byte_is_answered(self) -> None:
        async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as client:
            METADATA.with_header(correlation_id=1)
            for byte in bytes(METADATA.encode(header=True, framed=True)):
                await client.stream.send_all(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
            answer = await client.stream.receive_some()
            assert answer[4:8] == b"\0\0\0\1"


class TestEndings:
    async def test_member_losing_its_connection_in_a_join_fails_alone(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with memory_cluster() as cluster, connected(cluster) as leader:
            one = (await leader.ask(join())).member_id
            async with connected(cluster) as doomed:
                await doomed.send(join())
                await trio.testing.wait_all_tasks_blocked()
            rejoined = await leader.ask(join(one))
            assert (rejoined.error_code, len(rejoined.members)) == (ErrorCode.NONE, 2)
            await trio.sleep(300)
            assert cluster.describe_group("g").state is GroupState.EMPTY

    async def test_disconnect_drops_connections_even_while_they_are_held(self) -> None:
        async with memory_cluster({"orders": 1}, brokers=2) as cluster:
            async with connected(cluster, 0) as held, connected(cluster, 1) as other:
                await held.send(fetch(max_wait=3600))
                await trio.testing.wait_all_tasks_blocked()
                cluster.disconnect(0)
                await held.assert_hung_up()
                await other.ask(METADATA)
                cluster.disconnect()
                await other.assert_hung_up()
            async with connected(cluster, 0) as again:
                await again.ask(METADATA)

    @pytest.mark.parametrize("in_memory", [True, False])
    async def test_exit_of_the_cluster_closes_held_connections(self, in_memory: bool) -> None:
        async with EmbeddedCluster({"orders": 1}, in_memory=in_memory) as cluster:
            host, port = cluster.bootstrap_servers[0].rsplit(":", 1)
            client = WireClient(await cluster.transport.connect(host, int(port)))
            await client.send(fetch(max_wait=3600))
            await trio.testing.wait_all_tasks_blocked(0.01)
        await client.assert_hung_up()
        await client.stream.aclose()
        with pytest.raises(OSError):
            await cluster.transport.connect(host, int(port))

    async def test_internal_error_closes_one_connection_and_is_logged(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(body: Any, code: ErrorCode) -> Any:
            raise RuntimeError("a bug")

        monkeypatch.setattr("sarameya.embedded.apis.metadata.MetadataResponse", fail)
        async with memory_cluster() as cluster, connected(cluster) as client, connected(cluster) as other:
            await client.send(METADATA)
            await client.assert_hung_up()
            await other.ask(request(ApiVersionsRequest, 0))
        assert [record.levelno for record in caplog.records] == [logging.ERROR]


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


GARBAGE = {
    "a giant frame": struct.pack(">i", 2**31 - 1),
    "a negative frame": struct.pack(">i", -5),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + b"x" * 100,
    "an empty frame": frame(b""),
    "an unknown API": frame(struct.pack(">hhih", 999, 0, 1, -1)),
    "an unserved version": frame(struct.pack(">hhih", Api.FETCH, 99, 1, -1)),
    "a body cut off": frame(struct.pack(">hhih", Api.METADATA, 1, 1, -1) + b"\0\0\0\7"),
    "not UTF-8": frame(struct.pack(">hhih", Api.METADATA, 1, 1, -1) + b"\0\0\0\1\0\1\xff"),
}


class TestGarbage:
    @pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
    async def test_hostile_connection_closes_alone_with_one_log_line(
        self, garbage: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with memory_cluster() as cluster, connected(cluster) as hostile, connected(cluster) as other:
            await hostile.stream.send_all(garbage)
            await hostile.assert_hung_up()
            await other.ask(METADATA)
        assert [(record.levelno, record.name) for record in caplog.records] == [
            (logging.WARNING, "sarameya.embedded.network.server")
        ]

    async def test_stream_that_ends_inside_a_frame_is_detected(self, caplog: pytest.LogCaptureFixture) -> None:
        async with memory_cluster() as cluster:
            async with connected(cluster) as polite:
                await polite.ask(METADATA)
            await trio.testing.wait_all_tasks_blocked()
            assert caplog.records == []
            async with connected(cluster) as rude:
                await rude.stream.send_all(b"\0\0\0\x09half")
            await trio.testing.wait_all_tasks_blocked()
        assert len(caplog.records) == 1

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.one_of(
                st.binary(max_size=60),
                st.binary(max_size=60).map(frame),
                st.builds(
                    lambda api, version, body: frame(struct.pack(">hhih", api, version, 1, -1) + body),
                    st.sampled_from(sorted(SERVED_VERSIONS)),
                    st.integers(0, 12),
                    st.binary(max_size=80),
                ),
            ),
            max_size=6,
        )
    )
    def test_random_bytes_cause_no_internal_error(self, caplog: pytest.LogCaptureFixture, chunks: list[bytes]) -> None:
        async def attack() -> None:
            async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as other:
                async with connected(cluster) as hostile:
                    for chunk in chunks:
                        try:
                            await hostile.stream.send_all(chunk)
                        except trio.BrokenResourceError:
                            break  # the broker has closed the connection
                        await trio.testing.wait_all_tasks_blocked()
                await trio.sleep(3600)
                await other.ask(METADATA)

        caplog.clear()
        trio.run(attack, clock=trio.testing.MockClock(autojump_threshold=0))
        assert [record for record in caplog.records if record.levelno > logging.WARNING] == []
