"""TopicAdmin: descriptions and changes. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from trio.testing import MockClock

from sarameya import Config, Event
from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    KafkaError,
    RequestTimeoutError,
    RetriesExhaustedError,
    TopicAuthorizationError,
    TopicError,
    TopicExistsError,
    UnknownTopicError,
)
from sarameya.model import TopicPartition
from sarameya.net.admin.topic_admin import TopicAdmin
from sarameya.observe import Retrying
from sarameya.protocol.cluster.described_topics import DescribedPartition
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import deadline, orders


@asynccontextmanager
async def admin_of(cluster: EmbeddedCluster, **options: Any) -> AsyncIterator[tuple[TopicAdmin, list[Event]]]:
    events: list[Event] = []
    config = Config(**{"retry_timeout": 10.0, "request_timeout": 5.0, **options})
    async with TopicAdmin(cluster.bootstrap_servers, config, events.append, cluster.transport) as admin:
        yield admin, events


async def counts(admin: TopicAdmin) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in await admin.list_topics()}


async def test_topics_are_listed_by_name_with_their_partitions(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as (admin, _), deadline():
        cluster.create_topic("audit", 3)
        assert list((await counts(admin)).items()) == [("audit", 3), ("orders", 2)]


async def test_topic_is_described_with_leaders_and_replicas(autojump_clock: MockClock) -> None:
    async with orders(brokers=3) as cluster, admin_of(cluster) as (admin, _), deadline():
        await admin.create("copied", 2, 3)
        (topic,) = await admin.describe(["copied"])
        assert (topic.replication_factor, topic.is_internal) == (3, False)
        assert topic.topic_id is not None
        assert [(p.partition, set(p.replicas), p.is_in_sync) for p in topic.partitions] == [
            (TopicPartition("copied", 0), {0, 1, 2}, True),
            (TopicPartition("copied", 1), {0, 1, 2}, True),
        ]
        assert all(partition.leader in partition.replicas for partition in topic.partitions)


def test_lagging_replicas_are_not_in_sync() -> None:
    lagging = DescribedPartition(TopicPartition("a", 0), 0, 1, (0, 1, 2), (0, 2))
    assert not lagging.is_in_sync


async def test_missing_topic_is_not_described(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        with pytest.raises(UnknownTopicError, match=r"topic 'nothing'.*`sarameya topics list` shows the existing ones"):
            await admin.describe(["orders", "nothing"])
        assert "nothing" not in await counts(admin), "describing a topic does not create it"


async def test_topic_settings_exclude_defaults_of_brokers(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_some(request: Any, answer: Any) -> None:
        (result,) = answer.results
        (by_broker,) = result.configs
        kind = type(by_broker)
        result.configs = [
            by_broker,
            kind(name="retention.ms", value="5", config_source=1, is_sensitive=False, read_only=False, synonyms=[]),
            kind(name="a.password", value=None, config_source=1, is_sensitive=True, read_only=False, synonyms=[]),
        ]

    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        assert await admin.settings(["orders"]) == {"orders": {}}
        edit_answers(monkeypatch, Api.DESCRIBE_CONFIGS, set_some)
        assert await admin.settings(["orders"]) == {"orders": {"retention.ms": "5", "a.password": None}}


async def test_topic_is_created_grown_and_deleted(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, admin_of(cluster) as (admin, _), deadline():
        await admin.create("new", 2, settings={"retention.ms": "1000"})
        assert (await counts(admin))["new"] == 2
        await admin.grow("new", 5)
        assert (await counts(admin))["new"] == 5
        await admin.delete("new")
        assert "new" not in await counts(admin)


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "kind", "message"),
    [
        ("orders", 1, 1, TopicExistsError, "topic 'orders': TOPIC_ALREADY_EXISTS"),
        ("new", 0, 1, TopicError, "topic 'new': INVALID_PARTITIONS"),
        ("new", 1, 3, TopicError, "INVALID_REPLICATION_FACTOR.*there must be at least as many brokers as replicas"),
        ("no such name", 1, 1, TopicError, "INVALID_TOPIC_EXCEPTION.*1 to 249 of the characters"),
    ],
)
async def test_invalid_new_topic_is_refused_with_a_remedy(
    name: str, partitions: int, replicas: int, kind: type[KafkaError], message: str, autojump_clock: MockClock
) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        with pytest.raises(kind, match=message) as raised:
            await admin.create(name, partitions, replicas)
        assert type(raised.value) is kind
        assert "\n" not in str(raised.value)


async def test_topic_cannot_shrink_and_a_missing_one_cannot_change(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, admin_of(cluster) as (admin, _), deadline():
        with pytest.raises(TopicError, match="INVALID_PARTITIONS"):
            await admin.grow("orders", 1)
        for change in admin.grow("nothing", 3), admin.delete("nothing"):
            with pytest.raises(UnknownTopicError, match="`sarameya topics list`"):
                await change


@pytest.mark.parametrize(
    ("api", "code", "acl"),
    [
        (Api.CREATE_TOPICS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "CREATE on the topic or on the cluster"),
        (Api.CREATE_TOPICS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "CREATE on the topic or on the cluster"),
        (Api.DELETE_TOPICS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DELETE on the topic"),
        (Api.CREATE_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "ALTER on the topic"),
        (Api.DESCRIBE_CONFIGS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE_CONFIGS on the topic"),
    ],
)
async def test_authorization_error_names_the_required_acl(
    api: Api, code: ErrorCode, acl: str, autojump_clock: MockClock
) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        cluster.fail_next(api, code)
        change = {
            Api.CREATE_TOPICS: lambda: admin.create("new"),
            Api.DELETE_TOPICS: lambda: admin.delete("orders"),
            Api.CREATE_PARTITIONS: lambda: admin.grow("orders", 9),
            Api.DESCRIBE_CONFIGS: lambda: admin.settings(["orders"]),
        }[api]
        with pytest.raises(TopicAuthorizationError, match=f"it needs the ACL {acl}$"):
            await change()


async def test_moved_controller_is_found(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, events), deadline():
        cluster.fail_next(Api.CREATE_TOPICS, ErrorCode.NOT_CONTROLLER, 2)
        await admin.create("new", 3)
        assert (await counts(admin))["new"] == 3
        assert [event.what for event in events if isinstance(event, Retrying)] == ["create topic 'new'"] * 2


async def test_missing_controller_fails_at_the_retry_timeout(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        cluster.fail_next(Api.CREATE_TOPICS, ErrorCode.NOT_CONTROLLER, 1000)
        with pytest.raises(RetriesExhaustedError, match="NOT_CONTROLLER"):
            await admin.create("new", 3)


async def test_change_without_a_response_is_not_retried(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, events), deadline():
        cluster.delay_next(Api.CREATE_TOPICS, 60.0)
        with pytest.raises(RequestTimeoutError):
            await admin.create("new", 3)
        assert [event for event in events if isinstance(event, Retrying)] == []
