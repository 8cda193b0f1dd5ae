"""Lookup of topics at the start: retries, timeout and events. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Config, ErrorCode, Event, TopicAuthorizationError, UnknownTopicError
from sarameya.embedded import EmbeddedCluster
from sarameya.net.broker_pool import open_broker_pool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import orders


@asynccontextmanager
async def refresher(cluster: EmbeddedCluster, **options: Any) -> AsyncIterator[tuple[MetadataRefresher, list[Event]]]:
    events: list[Event] = []
    config = Config(**options)
    async with (
        open_broker_pool(cluster.bootstrap_servers, config, events.append, cluster.transport) as pool,
        trio.open_nursery() as nursery,
    ):
        metadata = MetadataRefresher(pool, config, events.append)
        nursery.start_soon(metadata.run)
        yield metadata, events
        nursery.cancel_scope.cancel()


def retries(events: list[Event]) -> list[Retrying]:
    return [event for event in events if isinstance(event, Retrying)]


async def test_missing_topic_is_retried_with_backoff_and_reported(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, refresher(cluster, bootstrap_timeout=10.0) as (metadata, events):
        with pytest.raises(UnknownTopicError):
            await metadata.wait_for_topics(["orders", "orderz", "returnz"])
        seen = retries(events)
        assert {(e.what, e.cause) for e in seen} == {
            (
                "lookup of topics",
                "orderz: UNKNOWN_TOPIC_OR_PARTITION (3), returnz: UNKNOWN_TOPIC_OR_PARTITION (3)",
            )
        }
        assert [e.attempt for e in seen] == list(range(1, len(seen) + 1))
        for attempt, backoff in enumerate((0.1, 0.2, 0.4, 0.8, 1.6)):
            assert seen[attempt].delay == pytest.approx(backoff, rel=0.2)
        assert max(e.delay for e in seen) <= 2.0
        assert seen[-1].elapsed + seen[-1].delay >= 10.0, "the retries last until the bootstrap timeout"
        assert trio.current_time() == pytest.approx(10.0)


async def test_topics_are_looked_up_until_the_bootstrap_timeout(
    autojump_clock: MockClock,
) -> None:
    options = {"bootstrap_timeout": 30.0, "retry_max_attempts": 0, "retry_timeout": 1.0}
    async with orders() as cluster, refresher(cluster, **options) as (metadata, events):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def create_late() -> None:
                await trio.sleep(20)
                cluster.create_topic("late", 3)

            found = await metadata.wait_for_topics(["late"])
        assert found.partition_counts(["late"]) == {"late": 3}
        assert trio.current_time() <= 22.0
        assert len(retries(events)) > 5


async def test_existing_topic_is_found_without_a_retry(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, refresher(cluster) as (metadata, events):
        assert (await metadata.wait_for_topics(["orders"])).partition_counts(["orders"]) == {"orders": 2}
        assert retries(events) == []


async def test_unauthorized_topic_is_not_retried(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []

    edit_answers(monkeypatch, Api.METADATA, forbid)
    async with orders() as cluster, refresher(cluster) as (metadata, events):
        with pytest.raises(TopicAuthorizationError, match="grant this principal READ"):
            await metadata.wait_for_topics(["orders"])
        assert retries(events) == []
        assert trio.current_time() < 1.0
