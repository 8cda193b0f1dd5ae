"""`sarameya groups` with Apache Kafka 4, and 3 where it is quick, compared with Kafka's own tool."""

from __future__ import annotations

import sysconfig
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer

from sarameya import Config, ConsumerGroup, TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END
from tests.group.kit import Recorder, eventually
from tests.integration.log_comparison import UNCOMMITTED, LogEnds, by_librdkafka
from tests.integration.outcome import Outcome
from tests.integration.real_kafka import GroupLine, RealKafka
from tests.integration.real_kafka.producing import produce, send

pytestmark = pytest.mark.integration

SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
DEADLINE = 60.0


async def sarameya(kafka: RealKafka, *arguments: str) -> Outcome:
    command = [SARAMEYA, "groups", *arguments, "--bootstrap-servers", ",".join(kafka.bootstrap_servers)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return Outcome.of(done)


async def described(kafka: RealKafka, group: str) -> Any:
    (document,) = (await sarameya(kafka, "describe", group, "--json")).document["groups"]
    return document


def lines(document: Any) -> list[GroupLine]:
    """Return a document's partitions as Kafka's own tool shows them."""
    return sorted(
        GroupLine(
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["log_end_offset"],
            row["lag"],
            row["member_id"],
            row["client_id"],
        )
        for row in document["partitions"]
    )


async def kafka_lines(kafka: RealKafka, group: str) -> list[GroupLine]:
    return await trio.to_thread.run_sync(kafka.describe_group, group)


@asynccontextmanager
async def member(
    kafka: RealKafka, group: str, topic: str, handler: Recorder, **options: object
) -> AsyncIterator[ConsumerGroup]:
    """Run a member until the block ends; it then leaves the group."""
    defaults = {"offset_initial": "oldest", "session_timeout": 6.0, "heartbeat_interval": 0.2}
    config = Config.from_mapping({**defaults, **options})
    async with ConsumerGroup(kafka.bootstrap_servers, group, config) as consumer_group, trio.open_nursery() as nursery:
        nursery.start_soon(consumer_group.consume, [topic], handler)
        yield consumer_group
        consumer_group.close_nowait()


@contextmanager
def confluent_member(kafka: RealKafka, group: str, topic: str, **options: Any) -> Iterator[Consumer]:
    """Run a member with librdkafka until the block ends; it then leaves the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(kafka.bootstrap_servers),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "client.id": "librdkafka",
            **options,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


async def test_live_group_is_described_as_by_kafkas_tool(real_kafka_any: RealKafka) -> None:
    topic, group = real_kafka_any.create_topic("described", 3), "described"
    first = produce(real_kafka_any, topic, [b"%d" % n for n in range(300)])
    one, other = Recorder(), Recorder()

    with trio.fail_after(DEADLINE):
        async with (
            member(real_kafka_any, group, topic, one, client_id="one", group_instance_id="static", autocommit=False),
            member(real_kafka_any, group, topic, other, client_id="other", autocommit=False),
        ):
            await trio.to_thread.run_sync(real_kafka_any.await_members, group, 2, DEADLINE)
            await eventually(lambda: len(one.messages) + len(other.messages) >= len(first))
            # Kafka lists a member before the member knows its assignment.
            await eventually(lambda: bool(one.sessions and other.sessions))
            for handler in (one, other):
                await handler.sessions[-1].commit()
            more = await trio.to_thread.run_sync(produce, real_kafka_any, topic, [b"%d" % n for n in range(90)])
            document = await described(real_kafka_any, group)
            expected = await kafka_lines(real_kafka_any, group)
            coordinator = await trio.to_thread.run_sync(real_kafka_any.coordinator, group)

    assert lines(document) == expected
    assert sum(line.lag or 0 for line in expected) == document["lag"] == len(more)
    assert (document["state"], document["protocol_type"], document["type"]) == ("Stable", "consumer", "classic")
    assert document["assignor"] == "range"
    assert document["coordinator"]["id"] == coordinator.node_id
    assert f"{document['coordinator']['host']}:{document['coordinator']['port']}" == coordinator.address
    assert [(m["client_id"], m["group_instance_id"], m["topics"]) for m in document["members"]] == [
        ("one", "static", [topic]),
        ("other", None, [topic]),
    ]
    assert document["advice"] == [
        "3 partitions, 2 members: some read 2, others 1; 1 or 3 members would read the same number each"
    ]


async def test_offsets_partition_is_where_commits_are_written(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("numbered")
    for group in ("KafkaConsumerDemo", "größer"):
        await commit_zero(real_kafka_any, group, topic)
        before = await log_ends(real_kafka_any, "__consumer_offsets")
        # Other groups may write at any time: for example, when members that a test has left behind expire.
        await commit_zero(real_kafka_any, f"not-{group}", topic)
        await commit_zero(real_kafka_any, group, topic)
        place = (await described(real_kafka_any, group))["offsets_partition"]
        assert (place["topic"], place["partitions"]) == ("__consumer_offsets", 5)
        assert await trio.to_thread.run_sync(written_to, real_kafka_any, group, before) == [place["partition"]]


async def commit_zero(kafka: RealKafka, group: str, topic: str) -> None:
    async with GroupAdmin(kafka.bootstrap_servers, Config(), lambda event: None) as admin:
        assert await admin.commit(group, {TopicPartition(topic, 0): 0}) == {TopicPartition(topic, 0): 0}


async def log_ends(kafka: RealKafka, topic: str) -> dict[int, int]:
    async with GroupAdmin(kafka.bootstrap_servers, Config(), lambda event: None) as admin:
        numbers = (await admin.metadata([topic])).topics[topic].partitions
        ends = await admin.log_offsets([TopicPartition(topic, number) for number in numbers], LOG_END)
        return {partition.partition: end for partition, end in ends.found.items()}


def written_to(kafka: RealKafka, group: str, since: Mapping[int, int]) -> list[int]:
    """Return the partitions of `__consumer_offsets` that have a record of the group at or after these offsets."""
    log = by_librdkafka(kafka, "__consumer_offsets", UNCOMMITTED, LogEnds.of(kafka, "__consumer_offsets", len(since)))
    name = len(group.encode()).to_bytes(2, "big") + group.encode()  # after the key's version, in each kind of record
    return [
        partition
        for partition, records in log.records.items()
        if any(r.offset >= since[partition] and (r.key or b"")[2:].startswith(name) for r in records)
    ]


async def test_only_an_idle_group_is_reset(real_kafka_any: RealKafka) -> None:
    topic, group = real_kafka_any.create_topic("reset", 2), "reset"
    produced = send(real_kafka_any, topic, ({"value": b"%d" % n, "partition": n % 2} for n in range(100)))
    reset = ["offsets", "reset", group, "--topic", topic, "--shift-by", "-10"]
    handler = Recorder()

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, group, topic, handler, client_id="busy"):
            await handler.received(len(produced))
            refused = await sarameya(real_kafka_any, *reset, "--execute")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("sarameya: error: group 'reset' is active (Stable): 1 member: busy-")
    before = await kafka_lines(real_kafka_any, group)
    assert [line.lag for line in before] == [0, 0]  # the refusal has changed nothing, the leaving member has committed

    shown = await sarameya(real_kafka_any, *reset, "--json")
    assert await kafka_lines(real_kafka_any, group) == before
    done = await sarameya(real_kafka_any, *reset, "--execute", "--json")
    assert done.document == {**shown.document, "executed": True}
    after = await kafka_lines(real_kafka_any, group)
    assert [(line.committed, line.lag) for line in after] == [((line.committed or 0) - 10, 10) for line in before]
    assert lines(await described(real_kafka_any, group)) == after

    again = Recorder()
    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, group, topic, again):
            await again.received(20)
    assert len(again.messages) == 20


async def test_reset_to_a_time_finds_the_first_later_message(real_kafka: RealKafka) -> None:
    topic, group = real_kafka.create_topic("timed", 2), "timed"
    produce(real_kafka, topic, [b"%d" % n for n in range(50)])
    middle = await log_ends(real_kafka, topic)
    await trio.sleep(0.01)
    moment = datetime.now(UTC).isoformat()
    produce(real_kafka, topic, [b"%d" % n for n in range(50)])

    reset = ["offsets", "reset", group, "--topic", topic, "--to-datetime", moment, "--execute", "--json"]
    document = (await sarameya(real_kafka, *reset)).document
    assert {row["partition"]: row["new_offset"] for row in document["partitions"]} == middle
    assert {line.partition: line.committed for line in await kafka_lines(real_kafka, group)} == middle


async def test_kip_848_group_is_described_and_reset(real_kafka: RealKafka) -> None:
    topic, group = real_kafka.create_topic("led-by-the-broker", 2), "led-by-the-broker"
    produce(real_kafka, topic, [b"%d" % n for n in range(10)])
    reset = ["offsets", "reset", group, "--all-topics", "--to-earliest", "--execute"]

    def consume() -> None:
        with confluent_member(real_kafka, group, topic, **{"group.protocol": "consumer"}) as consumer:
            for _ in range(10):
                message = consumer.poll(DEADLINE)
                assert message is not None
                assert message.error() is None
            consumer.commit(asynchronous=False)
            documents.append(trio.from_thread.run(described, real_kafka, group))
            tool.append(real_kafka.describe_group(group))
            refusals.append(trio.from_thread.run(sarameya, real_kafka, *reset))
            listings.append(trio.from_thread.run(sarameya, real_kafka, "list", "--json"))

    documents: list[Any] = []
    tool: list[list[GroupLine]] = []
    refusals: list[Outcome] = []
    listings: list[Outcome] = []
    with trio.fail_after(DEADLINE):
        await trio.to_thread.run_sync(consume)

    (document,) = documents
    assert lines(document) == tool[0]
    assert (document["type"], document["state"], document["assignor"]) == ("consumer", "Stable", "uniform")
    assert [m["assignment"] for m in document["members"]] == [[{"topic": topic, "partitions": [0, 1]}]]
    assert refusals[0].code == 1
    assert refusals[0].err.startswith(f"sarameya: error: group {group!r} is active (Stable): 1 member: ")
    (listed,) = [one for one in listings[0].document["groups"] if one["group"] == group]
    assert (listed["type"], listed["state"]) == ("consumer", "Stable")

    assert (await sarameya(real_kafka, *reset)).code == 0
    assert [line.lag for line in await kafka_lines(real_kafka, group)] == [
        line.end for line in await kafka_lines(real_kafka, group)
    ]


async def test_deleted_group_and_offsets_vanish_from_kafkas_tool(real_kafka: RealKafka) -> None:
    topic, group = real_kafka.create_topic("deleted", 2), "deleted"
    await sarameya(real_kafka, "offsets", "reset", group, "--topic", topic, "--to-latest", "--execute")
    assert len(await kafka_lines(real_kafka, group)) == 2

    assert (await sarameya(real_kafka, "offsets", "delete", group, "--topic", f"{topic}:0", "--execute")).code == 0
    assert [line.partition for line in await kafka_lines(real_kafka, group)] == [1]

    assert (await sarameya(real_kafka, "delete", group, "--execute")).code == 0
    outcome = await sarameya(real_kafka, "describe", group)
    assert outcome.code == 1
    assert f"group {group!r}: GROUP_ID_NOT_FOUND (69)" in outcome.err


async def test_deleted_topic_does_not_prevent_a_reset(real_kafka: RealKafka) -> None:
    here, old, group = real_kafka.create_topic("here"), real_kafka.create_topic("gone"), "half-gone"
    await sarameya(real_kafka, "offsets", "reset", group, "--topic", here, "--topic", old, "--to-latest", "--execute")
    topics = "org.apache.kafka.tools.TopicCommand"
    await trio.to_thread.run_sync(real_kafka.run_tool, topics, "--delete", "--topic", old)
    with trio.fail_after(DEADLINE):
        while True:
            rows = (await described(real_kafka, group))["partitions"]
            # The broker may already have deleted the commits of the deleted topic.
            if [row["topic"] for row in rows if row["problem"] is None] == [here]:
                break
    outcome = await sarameya(
        real_kafka, "offsets", "reset", group, "--all-topics", "--to-latest", "--execute", "--json"
    )
    assert {row["topic"]: row["new_offset"] for row in outcome.document["partitions"]}[here] == 0
