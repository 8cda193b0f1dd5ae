"""Producers of asyncio programs."""

from __future__ import annotations

import asyncio
import time

import attrs
import pytest

from sarameya import (
    ConfigError,
    DeliveryTimeoutError,
    EncodeError,
    KafkaError,
    ProducerRecord,
    RecordMetadata,
    UnknownTopicError,
)
from sarameya.asyncio import Consumer, Producer
from tests.asyncio.kit import QUICK, cluster_of, run


def test_records_are_sent_by_many_tasks() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 2}) as cluster, Producer(cluster.bootstrap_servers, QUICK) as producer:
            assert await producer.send("orders", b"a", key=b"k", partition=1) == RecordMetadata(1, 0)
            records = [ProducerRecord("orders", b"%d" % number, partition=1) for number in range(100)]
            stored = await producer.send_many(records)
            assert stored == [RecordMetadata(1, number + 1) for number in range(100)]
            sent = await asyncio.gather(*(producer.send("orders", b"x", partition=0) for _ in range(500)))
            assert sorted(place.offset for place in sent) == list(range(500))
            async with Consumer(cluster.bootstrap_servers) as consumer:
                async with consumer.consume_partition("orders", 1, "oldest") as claim:
                    message = await anext(aiter(claim))
                    assert (message.key, message.value) == (b"k", b"a")

    run(main)


def test_failures_are_raised() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            config = attrs.evolve(QUICK, bootstrap_timeout=0.1, delivery_timeout=0.5)
            async with Producer(cluster.bootstrap_servers, config) as producer:
                with pytest.raises(UnknownTopicError):
                    await producer.send("nothing", b"a")
                await producer.send("orders", b"a")
                await cluster.do(lambda embedded: embedded.freeze_broker(0))
                with pytest.raises(DeliveryTimeoutError):
                    await producer.send("orders", b"b")
                await cluster.do(lambda embedded: embedded.unfreeze_broker(0))
            with pytest.raises(RuntimeError, match="works only inside its block"):
                await producer.send("orders", b"c")
        with pytest.raises(RuntimeError, match="works only inside its block"):
            await Producer("localhost:1").send("orders", b"c")

    run(main)


def test_typed_records_are_encoded() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            formats = {"value_format": "json", "key_format": "string"}
            async with Producer[dict[str, int], str](cluster.bootstrap_servers, QUICK, **formats) as producer:
                assert await producer.send("orders", {"a": 1}, key="k") == RecordMetadata(0, 0)
                await producer.send_many([ProducerRecord("orders", {"a": 2}, "k"), ProducerRecord("orders", None, "k")])
                with pytest.raises(EncodeError):
                    await producer.send("orders", {"a": object()}, key="k")  # type: ignore[dict-item]
            async with Consumer(cluster.bootstrap_servers) as consumer:
                async with consumer.consume_partition("orders", 0, "oldest") as claim:
                    messages = aiter(claim)
                    found = [await anext(messages) for _ in range(3)]
            assert [(each.key, each.value) for each in found] == [(b"k", b'{"a":1}'), (b"k", b'{"a":2}'), (b"k", None)]
        with pytest.raises(ConfigError, match="value_format"):
            Producer("localhost:1", value_format="yaml")

    run(main)


def test_outcome_of_each_record_is_returned() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster, Producer(cluster.bootstrap_servers, QUICK) as producer:
            far = int(time.time() * 1000) + 365 * 86_400_000
            records = [ProducerRecord("orders", b"x", timestamp=stamp) for stamp in (None, far, None)]
            first, wrong, last = await producer.send_each(records)
            assert (first, last) == (RecordMetadata(0, 0), RecordMetadata(0, 1))
            assert isinstance(wrong, KafkaError)

    run(main)


def test_cancelled_send_withdraws_its_record() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster, Producer(cluster.bootstrap_servers, QUICK) as producer:
            await producer.send("orders", b"a")
            await cluster.do(lambda embedded: embedded.freeze_broker(0))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await producer.send("orders", b"b")
            await cluster.do(lambda embedded: embedded.unfreeze_broker(0))
            stored = await producer.send("orders", b"c")
            assert stored.offset in (1, 2), "the record was on its way, or was withdrawn"

    run(main)


def test_end_of_the_block_ends_calls_of_other_tasks() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.do(lambda embedded: embedded.freeze_broker(0))
            async with Producer(cluster.bootstrap_servers, QUICK) as producer:
                sending = asyncio.create_task(producer.send("orders", b"a"))
                await asyncio.sleep(0.05)
            with pytest.raises(RuntimeError, match="works only inside its block"):
                await sending

    run(main)
