"""A rolling restart of three brokers of Apache Kafka, stopped or killed, while a group reads and a producer sends.

The restart may delay messages by at most `SECONDS`. It must cause no rebalance, and must not lose, repeat
or reorder messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import trio

from sarameya.observe import MembershipChanged
from tests.integration.group_reading import SETTLE_SECONDS, open_reading
from tests.integration.real_kafka import Node, RealKafka
from tests.integration.real_kafka.replicas import await_all_in_sync

pytestmark = pytest.mark.integration

PARTITIONS = 6
MEMBERS = 3
SECONDS = {"stopped": 10.0, "killed": 20.0}
"""The longest permitted time from the broker's stop until each partition has delivered a message produced after it.

Measured on two busy processors: 1.5 to 3 s when stopped, 3.5 to 7 s when killed (Kafka takes 3 s to notice the death).
"""
READ_SECONDS = 5.0
"""The longest permitted time from a message's acknowledgement until the group has read it.

Measured: 0.2 s when stopped, up to 1.7 s when killed. The consumer requests new leaders with a backoff of up to 2 s.
"""
LATE_ACK_SECONDS = 1.0
"""Time after the broker's death in which a producer may get acknowledgements of messages that no other broker has."""


@pytest.mark.parametrize(
    ("how", "end", "strategy"),
    [
        pytest.param("stopped", Node.stop, "range", marks=pytest.mark.exhaustive),
        ("killed", Node.kill, "cooperative-sticky"),
    ],
    ids=["stopped", "killed"],
)
async def test_rolling_restart_causes_no_rebalance_and_loses_nothing(
    real_kafka_of_three: RealKafka, how: str, end: Callable[[Node], None], strategy: str
) -> None:
    kafka = real_kafka_of_three
    topic = kafka.create_topic(f"hurt-{how}", PARTITIONS)
    async with open_reading(kafka, topic, PARTITIONS, [strategy], MEMBERS) as reading:
        await reading.has_read_on(SETTLE_SECONDS)
        await trio.to_thread.run_sync(await_all_in_sync, kafka)
        settled, events = reading.memberships(), len(reading.events)

        for node in kafka.nodes:
            began = time.time()
            await trio.to_thread.run_sync(end, node)
            ended_at = time.time()
            await reading.has_read_on(began + SECONDS[how] - ended_at)
            took = time.time() - began
            node.start()
            await trio.to_thread.run_sync(await_all_in_sync, kafka)
            await reading.has_read_on(SETTLE_SECONDS)
            slowest = await reading.slowest_since(ended_at + LATE_ACK_SECONDS, READ_SECONDS)
            print(
                f"broker {node.node_id} {how}: all partitions read after {took:.1f} s, messages within {slowest:.1f} s"
            )
            assert slowest < READ_SECONDS

        assert reading.memberships() == settled
        assert [event for event in reading.events[events:] if isinstance(event, MembershipChanged)] == []

    for number, offsets in reading.offsets().items():
        assert offsets == list(range(len(offsets))), f"partition {number}: lost, repeated or out of order"
