"""Three brokers of Apache Kafka, each restarted or killed in turn, while a group of ours reads and a producer goes on.

A broker's end may cost waiting, and nothing else: no generation, no message, no order. `SECONDS` says how long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import trio

from sarameya.observe import MembershipChanged
from tests.integration.reading import SETTLE_SECONDS, open_reading
from tests.integration.real_kafka import Node, RealKafka
from tests.integration.real_kafka.replicas import await_all_in_sync

pytestmark = pytest.mark.integration

PARTITIONS = 6
MEMBERS = 3
SECONDS = {"stopped": 10.0, "killed": 20.0}
"""From the moment a broker is to end until something acknowledged after its end has been read of every partition.

Seen on two busy processors: 1.5 to 3 s when stopped, 3.5 to 7 s when killed (three of which it takes to be missed).
"""
OUR_SECONDS = 5.0
"""What of it may be ours: from a message's acknowledgement, by whichever broker leads by then, until it is read.

Seen: 0.2 s when stopped, up to 1.7 s when killed (leaders are looked for with growing pauses, of 2 s at the most).
"""
LAST_WORDS_SECONDS = 1.0
"""How long after a broker's end its last acknowledgements may be heard of, of messages it no longer gives out."""


@pytest.mark.parametrize(
    ("how", "end", "strategy"),
    [
        pytest.param("stopped", Node.stop, "range", marks=pytest.mark.exhaustive),
        ("killed", Node.kill, "cooperative-sticky"),
    ],
    ids=["stopped", "killed"],
)
async def test_rolling_restart_loses_no_generation_and_no_message(
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
            gone = time.time()
            await reading.has_read_on(began + SECONDS[how] - gone)
            took = time.time() - began
            node.start()
            await trio.to_thread.run_sync(await_all_in_sync, kafka)
            await reading.has_read_on(SETTLE_SECONDS)
            slowest = await reading.slowest_since(gone + LAST_WORDS_SECONDS, OUR_SECONDS)
            print(f"broker {node.node_id} {how}: read on after {took:.1f} s, of which ours {slowest:.1f} s at the most")
            assert slowest < OUR_SECONDS

        assert reading.memberships() == settled
        assert [event for event in reading.events[events:] if isinstance(event, MembershipChanged)] == []

    for number, offsets in reading.offsets().items():
        assert offsets == list(range(len(offsets))), f"partition {number}: each once, in order, without a gap"
