"""The topic id that a session reports for a name (KIP-516), and that this topic is read. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Config,
    Session,
    TopicPartition,
    TopicRecreatedError,
)
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.embedded import EmbeddedCluster
from sarameya.group.offsets.logs import Logs
from sarameya.group.runtime import Runtime, open_runtime
from sarameya.observe import Observers
from sarameya.protocol import versions
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.versions import Api, VersionRange
from tests.group.kit import (
    claim_failure,
    deadline,
    eventually,
    fill,
    orders,
    start_member,
)
from tests.group.test_log_facts import ORDERS_0, LookUpRecorder, watch


async def topic_id_of(session: Session) -> str:
    return session.topic_id("orders")


async def test_session_and_claim_have_the_id_of_their_topic(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = LookUpRecorder(topic_id_of)
        await start_member(nursery, cluster, handler)
        await eventually(lambda: bool(handler.claims))
        (topic_id,) = handler.results
        assert topic_id == handler.claims[0].topic_id
        assert len(bytes.fromhex(topic_id)) == 16
        with pytest.raises(ValueError, match="other is not claimed"):
            handler.sessions[0].topic_id("other")


async def test_topic_has_no_id_where_brokers_have_none(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.METADATA, VersionRange(4, 9))
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.FETCH, VersionRange(4, 12))
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = LookUpRecorder(topic_id_of)
        await start_member(nursery, cluster, handler)
        await handler.received(3)
        assert (handler.results, handler.claims[0].topic_id) == ([""], "")


@asynccontextmanager
async def bare_logs(cluster: EmbeddedCluster) -> AsyncIterator[tuple[Logs, Runtime]]:
    """Open `Logs` without metadata of any topic."""
    config, observer = Config(), Observers([])
    backoff = Backoff.of(config)
    async with open_runtime(
        "g", cluster.bootstrap_servers, config, observer, backoff, cluster.transport, lambda: 0.0
    ) as runtime:
        lookup = OffsetLookup(runtime.pool, runtime.metadata, config, observer, backoff, runtime.wall_clock)
        yield Logs(runtime, lookup), runtime


async def test_topic_without_metadata_is_looked_up_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that matches a pattern may be known only to the leader so far."""
    async with orders() as cluster, deadline(), bare_logs(cluster) as (logs, runtime):
        requested = watch(monkeypatch, Api.METADATA)
        runtime.metadata.follow(["orders"])
        assert logs.topic_id("orders") is None
        await logs.fetch_metadata([ORDERS_0])
        assert logs.topic_id("orders") is not None
        await logs.fetch_metadata([ORDERS_0])
        assert len(requested) == 1
        await logs.fetch_metadata([TopicPartition("gone", 0)])
        assert logs.topic_id("gone") is None


async def test_metadata_is_fetched_before_partitions_are_assigned(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[TopicPartition] = []

    async def fetch_metadata(self: Logs, partitions: Iterable[TopicPartition]) -> None:
        await trio.sleep(5)
        fetched.extend(partitions)

    async def look_up(session: Session) -> list[TopicPartition]:
        return list(fetched)

    monkeypatch.setattr(Logs, "fetch_metadata", fetch_metadata)
    async with orders(2) as cluster, deadline() as nursery:
        handler = LookUpRecorder(look_up)
        await start_member(nursery, cluster, handler)
        await eventually(lambda: bool(handler.results))
        assert handler.results == [[TopicPartition("orders", 0), TopicPartition("orders", 1)]]


async def test_unavailable_metadata_is_awaited_for_one_timeout(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline(), bare_logs(cluster) as (logs, _):
        cluster.drop_next(Api.METADATA, None, hang_up=False)
        began = trio.current_time()
        await logs.fetch_metadata([ORDERS_0])
        assert trio.current_time() - began == Config().request_timeout
        cluster.clear_faults()


async def test_topic_recreated_after_its_id_was_reported_is_not_read(autojump_clock: MockClock) -> None:
    """Otherwise a handler that has compared the id with that of its table would append another topic to it."""

    async def wait_and_return_id(session: Session) -> str:
        topic_id = session.topic_id("orders")
        await trio.sleep(10)
        assert session.topic_id("orders") == topic_id
        return topic_id

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = LookUpRecorder(wait_and_return_id, late=True)
        member = await start_member(nursery, cluster, handler, metadata_max_age=2.0)
        await trio.sleep(5)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)
        fill(cluster, 5)
        await member.ended.wait()
        assert isinstance(claim_failure(member), TopicRecreatedError)
        assert handler.messages == []


async def test_topic_that_returns_after_revocation_has_its_new_id(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.create_topic("others", 1)
        handler = LookUpRecorder(topic_id_of)
        options = {"rebalance_strategies": ("cooperative-sticky",), "metadata_max_age": 2.0}
        member = await start_member(nursery, cluster, handler, topics=("orders", "others"), **options)
        await eventually(lambda: len(handler.claims) == 2)
        member.group.subscribe(["others"])
        await eventually(lambda: "orders" not in handler.sessions[0].claims)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)
        fill(cluster, 5)
        member.group.subscribe(["orders", "others"])
        await handler.received(5)
        first, second = handler.results
        assert first != second == handler.claims[-1].topic_id
        assert len(handler.sessions) == 1
