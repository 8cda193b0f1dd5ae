"""Bad input gets a clear, typed error. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Config,
    ConfigError,
    ConnectError,
    ConsumerGroup,
    TopicPartition,
    UnknownTopicError,
)
from sarameya.observe import (
    Committed,
    MembershipChanged,
    SessionStarted,
)
from tests.group.kit import CutOff, Recorder, deadline, fill, orders, start_member


async def test_unknown_topic_fails_after_the_bootstrap_timeout(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        began = trio.current_time()
        member = await start_member(nursery, cluster, Recorder(), topics=("orderz",), bootstrap_timeout=5.0)
        await member.ended.wait()
        assert isinstance(member.error, UnknownTopicError)
        assert "'orderz'" in str(member.error)
        assert "create the topic, or correct its name" in str(member.error)
        assert trio.current_time() - began == pytest.approx(5.0)


async def test_topic_created_while_the_group_waits_is_consumed(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler, topics=("late",), bootstrap_timeout=30.0)
        await trio.sleep(10)
        cluster.create_topic("late", 1)
        fill(cluster, 2, topic="late")
        await handler.received(2)
        assert handler.offsets("late", 0) == [0, 1]


async def test_connect_error_names_the_unreachable_address(autojump_clock: MockClock) -> None:
    async with orders() as cluster:
        group = ConsumerGroup(["nowhere:9092"], "g", Config(bootstrap_timeout=3.0), transport=cluster.transport)
        async with group:
            with pytest.raises(ConnectError, match="nowhere:9092"):
                await group.consume(["orders"], Recorder())


async def test_unresponsive_brokers_are_named_in_the_error(autojump_clock: MockClock) -> None:
    async with orders() as cluster:
        silent = CutOff(cluster.transport)
        silent.alive = False
        config = Config(bootstrap_timeout=3.0)
        async with ConsumerGroup(["one:9092", "two:9092"], "g", config, transport=silent) as group:
            with pytest.raises(ConnectError, match=r"one:9092, two:9092 do not answer; is there a Kafka broker\?"):
                await group.consume(["orders"], Recorder())


@pytest.mark.parametrize("topics", ["orders", [], [""], [1]])
async def test_invalid_topics_are_refused(autojump_clock: MockClock, topics: object) -> None:
    async with orders() as cluster:
        async with ConsumerGroup(cluster.bootstrap_servers, "g", transport=cluster.transport) as group:
            with pytest.raises(ConfigError, match="non-empty list of topic names"):
                await group.consume(topics, Recorder())  # type: ignore[arg-type]


@pytest.mark.parametrize("servers", [[], ["localhost"], ["localhost:0"], ["localhost:x"], [":9092"], ["h:70000"]])
async def test_invalid_bootstrap_address_is_refused(autojump_clock: MockClock, servers: list[str]) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        ConsumerGroup(servers, "g")


@pytest.mark.parametrize("group_id", ["", b"g", None, "g\udcff"])
async def test_invalid_group_id_is_refused(autojump_clock: MockClock, group_id: Any) -> None:
    """The last one has a surrogate: a byte of a command line that is not UTF-8. No request can carry it."""
    with pytest.raises(ConfigError, match="group_id"):
        ConsumerGroup(["localhost:9092"], group_id)


async def test_consume_outside_async_with_raises(autojump_clock: MockClock) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await ConsumerGroup(["localhost:9092"], "g").consume(["orders"], Recorder())


async def test_second_consume_at_the_same_time_is_refused(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(RuntimeError, match="running already"):
            await member.group.consume(["orders"], Recorder())


async def test_consume_of_a_closed_group_does_not_call_the_handler(autojump_clock: MockClock) -> None:
    async with orders() as cluster:
        async with ConsumerGroup(cluster.bootstrap_servers, "g", transport=cluster.transport) as group:
            group.close_nowait()
            handler = Recorder()
            await group.consume(["orders"], handler)
            assert handler.calls == []


async def test_close_without_a_reachable_cluster_returns_at_once(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(), topics=("nothing",), bootstrap_timeout=100.0)
        await trio.sleep(5)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() == began
        assert member.error is None


async def test_events_report_each_membership_state(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(1)
        await member.close()
        states = [e.after for e in member.seen(MembershipChanged)]
        assert states == [
            "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "LEAVING", "UNJOINED",
        ]  # fmt: skip
        assert member.seen(SessionStarted)[0].assignment == {"orders": (0,)}
        assert member.seen(Committed)[-1].offsets == {TopicPartition("orders", 0): 1}
