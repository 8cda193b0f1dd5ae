"""A member's identity, and topics that change under a group, on Kafka 4 and 3, in real time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import kafka
import kafka.errors
import pytest
import trio

from sarameya import Config, ConsumerGroup, Event, FencedInstanceError, GroupMetadata
from tests.group.kit import Recorder, Running, eventually
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import produce, send
from tests.integration.test_real_kafka_group import claimed, member, places

pytestmark = pytest.mark.integration

DEADLINE = 30.0
HEARTBEAT_SECONDS = 0.2
"""Interval between heartbeats."""
REBALANCE_SECONDS = 5 * HEARTBEAT_SECONDS
"""Time within which a member learns of a rebalance."""


@asynccontextmanager
async def deadline() -> AsyncIterator[trio.Nursery]:
    with trio.fail_after(DEADLINE):
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()


async def start(
    nursery: trio.Nursery,
    cluster: RealKafka,
    group: str,
    topics: str | re.Pattern[str],
    handler: Recorder,
    **options: Any,
) -> Running:
    """Start a member; it runs until it is closed or fails."""
    config = Config(**{"offset_initial": "oldest", "heartbeat_interval": HEARTBEAT_SECONDS, **options})

    async def run(*, task_status: trio.TaskStatus[Running]) -> None:
        events: list[Event] = []
        consumer_group = ConsumerGroup(cluster.bootstrap_servers, group, config, observers=[events.append])
        running = Running(consumer_group, trio.CancelScope(), events)
        task_status.started(running)
        try:
            async with consumer_group:
                if isinstance(topics, str):
                    await consumer_group.consume([topics], handler)
                else:
                    await consumer_group.consume(pattern=topics, handler=handler)
        except Exception as error:
            running.error = error
        finally:
            running.ended.set()

    return await nursery.start(run)


async def test_static_leader_restarting_in_time_keeps_its_partitions(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("static", 4)
    produced = produce(real_kafka_any, topic, [b"%d" % n for n in range(100)])
    leads, follows, returns = Recorder(), Recorder(), Recorder()

    async with deadline() as nursery:
        join = partial(start, nursery, real_kafka_any, "static", topic)
        leader = await join(leads, group_instance_id="leader")
        await leads.until(lambda: bool(leads.sessions))
        await join(follows, group_instance_id="follower")
        await eventually(lambda: bool(follows.sessions) and len(claimed(leads)) == len(claimed(follows)) == 2)
        owned, calls, generation = claimed(leads), follows.calls.copy(), follows.sessions[-1].generation

        await eventually(lambda: len(leads.messages + follows.messages) >= len(produced))
        await leader.close()
        produced_meanwhile = await trio.to_thread.run_sync(
            produce, real_kafka_any, topic, [b"%d" % n for n in range(100)]
        )
        produced |= produced_meanwhile
        await join(returns, group_instance_id="leader")
        await eventually(lambda: len(leads.messages + follows.messages + returns.messages) >= len(produced))
        await trio.sleep(REBALANCE_SECONDS)

        assert claimed(returns) == owned
        assert returns.sessions[-1].generation == generation
        assert returns.sessions[-1].member_id != leads.sessions[-1].member_id
        assert set(places(returns)) == {place for place in produced_meanwhile if place[0] in owned}
        assert follows.calls == calls, "the other member has noticed nothing"
        assert sorted(places(leads) + places(follows) + places(returns)) == sorted(produced)  # each once


async def test_second_member_with_an_instance_id_fences_the_first(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("fenced", 2)
    one, two = Recorder(), Recorder()

    async with deadline() as nursery:
        join = partial(start, nursery, real_kafka_any, "fenced", topic, group_instance_id="worker-1")
        first = await join(one)
        await one.until(lambda: bool(one.sessions))
        second = await join(two)
        await first.ended.wait()
        produced = await trio.to_thread.run_sync(produce, real_kafka_any, topic, [b"%d" % n for n in range(20)])
        await two.received(len(produced))

        assert isinstance(first.error, FencedInstanceError)
        assert "give each member its own" in str(first.error)
        assert not second.ended.is_set()
        assert two.sessions[-1].generation == one.sessions[-1].generation, "no rebalance"


async def test_new_topics_and_partitions_are_read_from_their_start(
    real_kafka_any: RealKafka,
) -> None:
    old = real_kafka_any.create_topic("growing-old")
    produce(real_kafka_any, old, [b"before"])
    handler = Recorder()

    async with deadline() as nursery:
        pattern = re.compile("growing-.*")
        await start(nursery, real_kafka_any, "growing", pattern, handler, offset_initial="newest", metadata_max_age=1.0)
        await handler.until(lambda: bool(handler.sessions))

        new = await trio.to_thread.run_sync(real_kafka_any.create_topic, "growing-new")
        await trio.to_thread.run_sync(produce, real_kafka_any, new, [b"0", b"1", b"2"])
        await handler.received(3)

        await trio.to_thread.run_sync(real_kafka_any.add_partitions, new, 3)
        records = [{"value": b"%d" % n, "partition": 1 + n % 2} for n in range(4)]
        await trio.to_thread.run_sync(send, real_kafka_any, new, records)
        await handler.received(7)

    assert [handler.offsets(new, number) for number in range(3)] == [[0, 1, 2], [0, 1], [0, 1]]
    assert handler.offsets(old, 0) == [], "a topic that existed before starts by `offset_initial`"


async def test_transactional_producer_commits_with_session_metadata(
    real_kafka_any: RealKafka,
) -> None:
    topic = real_kafka_any.create_topic("exactly")
    handler = Recorder()

    def commit(offset: int, identity: GroupMetadata) -> None:
        """Commit with kafka-python's producer, whose ConsumerGroupMetadata accepts another client's identity."""
        producer = kafka.KafkaProducer(
            bootstrap_servers=real_kafka_any.bootstrap_servers, transactional_id=f"{topic}-{offset}"
        )
        try:
            producer.init_transactions()
            producer.begin_transaction()
            offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
            producer.send_offsets_to_transaction(offsets, kafka.ConsumerGroupMetadata(*attrs.astuple(identity)))
            producer.commit_transaction()
        finally:
            producer.close(timeout=0)

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, "exactly", topic, handler, autocommit=False, group_instance_id="worker-1"):
            await handler.until(lambda: bool(handler.sessions))
            identity = handler.sessions[-1].group_metadata
            await trio.to_thread.run_sync(commit, 1, identity)
            refusals = [
                (attrs.evolve(identity, group_id="no such group"), "IllegalGenerationError|UnknownMemberIdError"),
                (attrs.evolve(identity, generation_id=identity.generation_id - 1), "IllegalGenerationError"),
                (attrs.evolve(identity, member_id="somebody else"), "FencedInstanceIdError"),
                (attrs.evolve(identity, group_instance_id="worker-2"), "UnknownMemberIdError"),
            ]
            for n, (wrong, why) in enumerate(refusals):
                with pytest.raises(kafka.errors.KafkaError) as refused:
                    await trio.to_thread.run_sync(commit, 100 + n, wrong)
                assert re.search(why, repr(refused.value))
            (line,) = await trio.to_thread.run_sync(real_kafka_any.describe_group, "exactly")
            assert line.committed == 1
