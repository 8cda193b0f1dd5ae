"""A group on asyncio, on Kafka 4 and 3: a handler blocks its event loop, and the member keeps its membership."""

from __future__ import annotations

import asyncio
import time

import pytest

from sarameya import Config, Message
from sarameya.asyncio import Claim, Consumer, ConsumerGroup, ConsumerGroupHandler, MessageHandler, Producer, Session
from sarameya.observe import Event, MembershipChanged
from tests.asyncio.kit import eventually, run
from tests.integration.real_kafka import RealKafka

pytestmark = [pytest.mark.integration, pytest.mark.alone]

SESSION_TIMEOUT = 2.0
COUNT = 1000


class Claims(ConsumerGroupHandler):
    """Blocks for three session timeouts at the first message."""

    def __init__(self) -> None:
        self.seen: list[bytes | None] = []

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            if not self.seen:
                time.sleep(3 * SESSION_TIMEOUT)  # noqa: ASYNC251 - the test needs a blocked loop
            self.seen.append(message.value)
            session.mark_message(message)


class Messages(MessageHandler):
    """Blocks for three session timeouts at the first message."""

    ordering = "key"

    def __init__(self) -> None:
        self.seen: list[bytes | None] = []

    async def handle(self, message: Message) -> None:
        if not self.seen:
            time.sleep(3 * SESSION_TIMEOUT)  # noqa: ASYNC251 - the test needs a blocked loop
        self.seen.append(message.value)


@pytest.mark.parametrize("kind", [Claims, Messages])
def test_blocked_loop_keeps_the_membership(real_kafka_any: RealKafka, kind: type[Claims] | type[Messages]) -> None:
    name = f"asyncio-{kind.__name__.lower()}"
    topic, servers = real_kafka_any.create_topic(name, 2), real_kafka_any.bootstrap_servers
    config = Config(offset_initial="oldest", session_timeout=SESSION_TIMEOUT, heartbeat_interval=0.2)
    events: list[Event] = []

    async def main() -> None:
        async with Producer(servers) as producer:
            values = [b"%d" % number for number in range(COUNT)]
            await asyncio.gather(*(producer.send(topic, value, key=value[-1:]) for value in values))
        handler = kind()
        async with ConsumerGroup(servers, name, config, observers=[events.append]) as group:
            consuming = asyncio.create_task(group.consume([topic], handler))
            await eventually(lambda: len(handler.seen) == COUNT)
            assert (await group.status()).generation == 1
            await group.close()
            await consuming
        assert sorted(handler.seen, key=lambda value: int(value or b"")) == values
        async with Consumer(servers, group_id=name) as consumer:
            committed = await consumer.committed(await consumer.topic_partitions(topic))
        assert sum(0 if found is None else found.offset for found in committed.values()) == COUNT

    run(main)
    assert [event for event in events if isinstance(event, MembershipChanged) and event.after == "LOST"] == []
