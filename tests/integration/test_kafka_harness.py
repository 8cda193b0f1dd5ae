"""Apache Kafka as the harness starts it: other clients and Kafka's own tools work with it."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from tests.integration.real_kafka import RealKafka, ToolError
from tests.integration.real_kafka.producing import produce

pytestmark = pytest.mark.integration


def test_records_of_other_clients_are_consumed_with_lag(real_kafka: RealKafka) -> None:
    topic = real_kafka.create_topic("others", 4)
    produced = produce(real_kafka, topic, [b"v%d" % n for n in range(1_000)])

    consumed = asyncio.run(consume_with_aiokafka(real_kafka, topic, "others-group", len(produced)))

    assert consumed == produced
    lines = real_kafka.describe_group("others-group")
    assert [line.partition for line in lines] == [0, 1, 2, 3]
    assert {line.lag for line in lines} == {0}
    assert {line.member_id for line in lines} == {None}


async def consume_with_aiokafka(kafka: RealKafka, topic: str, group: str, count: int) -> set[tuple[int, int]]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
    )
    places: set[tuple[int, int]] = set()
    async with asyncio.timeout(30), consumer:
        while len(places) < count:
            for batch in (await consumer.getmany(timeout_ms=100)).values():
                places |= {(record.partition, record.offset) for record in batch}
    return places


def test_failing_tool_raises_its_output(real_kafka: RealKafka) -> None:
    with pytest.raises(ToolError, match=r"exited with 1(.|\n)*nowhere"):
        real_kafka.run_tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "nowhere")
