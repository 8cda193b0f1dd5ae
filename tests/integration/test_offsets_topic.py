"""`__consumer_offsets` of the embedded broker, read over the wire by Kafka's own console consumer and its formatters.

Groups do the same on both clusters. The formatters, which decode by Kafka's schemas, must show the same records of both
logs, except for ids and times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
import trio

from sarameya import Config, ConsumerGroup, Message, TimestampType, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC, partition_for
from tests.group.kit import Recorder
from tests.integration.real_kafka import RealKafka, run_tool

pytestmark = pytest.mark.integration

TOPIC = "logged"
DEADLINE = 60.0
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS, GROUPS = (
    f"org.apache.kafka.tools.consumer.{formatter}MessageFormatter" for formatter in ("Offsets", "GroupMetadata")
)
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

COMES_AND_GOES = "comes-and-goes"
STAYS = next(name for n in count() if partition_for(name := f"stays-{n}") == partition_for(COMES_AND_GOES))
"""A group that is kept in the same partition as `COMES_AND_GOES`, of fifty partitions and of five."""


async def work(bootstrap: Sequence[str], group: str, **options: Any) -> None:
    """Run a member that commits and closes; there is nothing to read. A static member stays in the group."""
    config = Config(client_id="worker", offset_initial="oldest", autocommit=False, **options)
    handler = Recorder()
    async with ConsumerGroup(bootstrap, group, config) as member, trio.open_nursery() as nursery:
        nursery.start_soon(member.consume, [TOPIC], handler)
        await handler.until(lambda: f"claim {TOPIC}-1" in handler.calls)
        session = handler.sessions[0]
        session.mark_offset(TOPIC, 0, 2, "zwei übrig")
        session.mark_message(Message(TOPIC, 1, 2, 0, TimestampType.CREATE_TIME, None, None, leader_epoch=0))
        await session.commit()
        member.close_nowait()


async def offsets_log(bootstrap: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Work on the groups, and return the records of offsets and of groups that Kafka's tool shows."""
    async with GroupAdmin(bootstrap, Config(), lambda event: None) as admin:
        await work(bootstrap, COMES_AND_GOES)
        await admin.delete_offsets(COMES_AND_GOES, [TopicPartition(TOPIC, 1)])
        await work(bootstrap, STAYS, group_instance_id="worker-1")
        partitions = len((await admin.metadata([OFFSETS_TOPIC])).topics[OFFSETS_TOPIC].partitions)
        log = TopicPartition(OFFSETS_TOPIC, partition_for(STAYS, partitions))
        end = (await admin.log_offsets([log], LOG_END)).found[log]
    shown: dict[str, list[Any]] = {}

    async def show(formatter: str) -> None:
        where = ["--topic", log.topic, "--partition", str(log.partition), "--offset", "earliest"]
        until = ["--max-messages", str(end), "--timeout-ms", "30000", "--formatter", formatter]
        text = await trio.to_thread.run_sync(run_tool, bootstrap, CONSOLE_CONSUMER, *where, *until)
        shown[formatter] = [record for record in map(plain, records(text)) if is_of_test_groups(record)]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(show, OFFSETS)
        nursery.start_soon(show, GROUPS)
    return shown[OFFSETS], shown[GROUPS]


def records(text: str) -> Iterator[Any]:
    """Yield the documents of the formatters, which write nothing between them."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        record, at = decoder.raw_decode(text, at)
        yield record


def is_of_test_groups(record: Any) -> bool:
    return record["key"]["data"]["group"] in (COMES_AND_GOES, STAYS)


def plain(value: Any, name: str = "") -> Any:
    """Replace ids and times, which differ from run to run."""
    match value:
        case dict():
            return {key: plain(item, key) for key, item in value.items()}
        case list():
            return [plain(item, name) for item in value]
        case str():
            return re.sub(UUID, "<uuid>", value)
        case int() if name.endswith("Timestamp") and value > 0:
            return "<time>"
        case _:
            return value


async def test_kafkas_tool_reads_the_embedded_offsets_topic(real_kafka: RealKafka) -> None:
    real_kafka.create_topic(TOPIC, 2)
    with trio.fail_after(DEADLINE):
        async with EmbeddedCluster({TOPIC: 2}) as cluster:
            offsets, groups = await offsets_log(cluster.bootstrap_servers)
        kafka_offsets, kafka_groups = await offsets_log(real_kafka.bootstrap_servers)
    assert versions(offsets) == {3}, "the version that Kafka wrote up to 4.0, and still reads"
    assert versions(kafka_offsets) == {4}, "this version has a topic id, which is empty here"
    assert [(record["key"], content(record)) for record in offsets] == [
        (record["key"], content(record)) for record in kafka_offsets
    ]
    assert [content(record) for record in offsets if record["key"]["data"]["group"] == COMES_AND_GOES] == [
        (0, {"offset": 0, "leaderEpoch": 0, "metadata": "", "commitTimestamp": "<time>"}),
        (1, {"offset": 0, "leaderEpoch": 0, "metadata": "", "commitTimestamp": "<time>"}),
        (0, {"offset": 2, "leaderEpoch": -1, "metadata": "zwei übrig", "commitTimestamp": "<time>"}),
        (1, {"offset": 3, "leaderEpoch": 0, "metadata": "", "commitTimestamp": "<time>"}),
        (1, None),
    ]
    assert groups == kafka_groups
    shown = [(record["key"]["data"]["group"], record["value"]["data"]) for record in groups]
    assert [(group, data["generation"], [m["groupInstanceId"] for m in data["members"]]) for group, data in shown] == [
        (COMES_AND_GOES, 0, []),
        (COMES_AND_GOES, 1, [None]),
        (COMES_AND_GOES, 2, []),
        (STAYS, 0, []),
        (STAYS, 1, ["worker-1"]),
    ]


def versions(records: Iterable[Any]) -> set[int]:
    return {record["value"]["version"] for record in records if record["value"] is not None}


def content(record: Any) -> tuple[int, Any]:
    """Return a commit's partition, and the committed value; None is a tombstone."""
    value = record["value"]
    return record["key"]["data"]["partition"], None if value is None else value["data"]
