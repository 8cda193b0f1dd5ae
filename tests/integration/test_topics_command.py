"""`sarameya topics` with Apache Kafka 4 and 3, compared with librdkafka's admin client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from tests.integration.outcome import Outcome
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import produce
from tests.integration.real_kafka.security import USERS

pytestmark = pytest.mark.integration

DEADLINE = 60.0


async def topics(kafka: RealKafka, *arguments: str) -> Outcome:
    return await run_topics(*arguments, "--bootstrap", ",".join(kafka.bootstrap_servers))


async def run_topics(*arguments: str) -> Outcome:
    command = [sys.executable, "-m", "sarameya.service", "topics", *arguments]
    with trio.fail_after(DEADLINE):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return Outcome.of(done)


def partition_count(kafka: RealKafka, topic: str) -> int:
    """Return the number of partitions according to another admin client; 0 if there is no topic."""
    found = kafka.admin().list_topics(timeout=10).topics.get(topic)
    return len(found.partitions) if found else 0


async def until_partition_count(kafka: RealKafka, topic: str, partitions: int) -> None:
    with trio.fail_after(DEADLINE):
        while await trio.to_thread.run_sync(partition_count, kafka, topic) != partitions:
            await trio.sleep(0.1)


async def test_topic_commands_work_on_apache_kafka(real_kafka_any: RealKafka) -> None:
    kafka, topic = real_kafka_any, "topics-command"
    created = await topics(kafka, "create", topic, "--partitions", "2", "--config", "retention.ms=86400000")
    assert (created.code, created.err) == (0, "")
    await until_partition_count(kafka, topic, 2)
    await trio.to_thread.run_sync(produce, kafka, topic, [b"%d" % n for n in range(30)])

    listed = {row["topic"]: row for row in (await topics(kafka, "list", "--json")).document["topics"]}
    assert (listed[topic]["partitions"], listed[topic]["replication_factor"]) == (2, 1)
    (described,) = (await topics(kafka, "describe", topic, "--json")).document["topics"]
    assert described["settings"] == {"retention.ms": "86400000"}
    assert described["offsets"] == 30
    assert [(row["leader"], row["replicas"], row["in_sync"]) for row in described["partitions"]] == [
        (kafka.nodes[0].node_id, [kafka.nodes[0].node_id], [kafka.nodes[0].node_id])
    ] * 2
    assert described["advice"] == []

    assert (await topics(kafka, "grow", topic, "--partitions", "5", "--execute")).code == 0
    await until_partition_count(kafka, topic, 5)
    assert (await topics(kafka, "delete", topic)).code == 0
    assert partition_count(kafka, topic) == 5, "nothing has changed yet"
    assert (await topics(kafka, "delete", topic, "--execute")).code == 0
    await until_partition_count(kafka, topic, 0)


@pytest.mark.parametrize(
    ("argv", "code", "expected"),
    [
        (["create", "topics-there"], 2, "TOPIC_ALREADY_EXISTS (36); Topic 'topics-there' already exists"),
        (
            ["create", "topics-new", "--replication-factor", "3"],
            2,
            "there must be at least as many brokers as replicas",
        ),
        (["create", "topics new"], 2, "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ -"),
        (["create", "topics-new", "--config", "no.such=1"], 2, "INVALID_CONFIG (40); "),
        (["describe", "topics-nothing"], 1, "`sarameya topics list` shows the existing ones"),
    ],
)
async def test_refusal_by_kafka_is_one_line_with_advice(
    real_kafka: RealKafka, argv: list[str], code: int, expected: str
) -> None:
    if not partition_count(real_kafka, "topics-there"):
        real_kafka.create_topic("topics-there")
    outcome = await topics(real_kafka, *argv)
    assert outcome.code == code
    (line,) = outcome.err.splitlines()
    assert expected in line
    assert partition_count(real_kafka, "topics-new") == 0


async def test_missing_acl_is_reported_by_name(real_kafka_secured: RealKafka, tmp_path: Path) -> None:
    kafka, topic = real_kafka_secured, "topics-of-bob"
    kafka.create_topic(topic)
    grant(kafka, topic, "bob", AclOperation.ALL)
    grant(kafka, topic, "alice", AclOperation.DESCRIBE)
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"bootstrap.servers={','.join(kafka.at('SASL_PLAIN'))}\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{USERS["alice"]}";\n'
    )

    async def alice(*arguments: str) -> Outcome:
        return await run_topics(*arguments, "--properties", str(properties))

    described = await alice("describe", topic)
    assert described.code == 0, described.err
    assert "it needs the ACL DESCRIBE_CONFIGS on the topic" in described.out
    refused = await alice("grow", topic, "--partitions", "2", "--execute")
    assert refused.code == 2
    warning, line = refused.err.splitlines()
    assert "security_protocol" in warning
    assert "use SASL_SSL" in warning
    assert USERS["alice"] not in warning
    assert line.endswith("TOPIC_AUTHORIZATION_FAILED (29); it needs the ACL ALTER on the topic"), line
    assert partition_count(kafka, topic) == 1


def grant(kafka: RealKafka, topic: str, user: str, operation: AclOperation) -> None:
    literal = ResourcePatternType.LITERAL
    allowed = AclBinding(ResourceType.TOPIC, topic, literal, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    admin = kafka.admin()  # keep a reference: without one the client stops its requests
    for done in admin.create_acls([allowed]).values():
        done.result(DEADLINE)
