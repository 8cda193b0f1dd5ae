"""A member whose handler blocks the event loop. The broker runs in the process of the test.

The member consumes for a while, and prints its counts as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter

import trio

from sarameya import (
    Claim,
    CommittedOffset,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    Message,
    Session,
    StreamHandler,
    TopicPartition,
)
from sarameya.group.stream import Stream
from sarameya.observe import Committed, Event, MembershipChanged


class Blocking(ConsumerGroupHandler):
    """A handler that blocks the event loop at each message.

    Args:
        seconds: the time that it blocks.
        quick: the number of messages, of all partitions together, before it starts to block.
        awaits: whether it also awaits before each time that it blocks.
        at_start: whether it also blocks in `start_offset` and before a claim's first message, like a handler that opens
            connections.
    """

    def __init__(self, seconds: float, quick: int, awaits: bool, at_start: bool) -> None:
        self.taken = Counter[tuple[int, int]]()
        self._seconds = seconds
        self._quick = quick
        self._awaits = awaits
        self._seconds_at_start = seconds if at_start else 0.0

    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> None:
        time.sleep(self._seconds_at_start)  # noqa: ASYNC251 - as below

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        time.sleep(self._seconds_at_start)  # noqa: ASYNC251 - as below
        async for message in claim:
            await self.handle(session, message)

    async def handle(self, session: Session, message: Message) -> None:
        if self.taken.total() >= self._quick:
            if self._awaits:
                await trio.sleep(0.01)
            time.sleep(self._seconds)  # noqa: ASYNC251 - the test needs a blocked loop
        self.taken[message.partition, message.offset] += 1
        session.mark_message(message)


class BlockingStreams(StreamHandler, Blocking):
    """The same handler with several partitions in one task."""

    streams = 4

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for message in stream:
            await self.handle(session, message)


class Watch:
    """An observer that counts lost memberships, and keeps the last committed offset of each partition."""

    def __init__(self) -> None:
        self.lost = 0
        self.committed: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case MembershipChanged(after="LOST"):
                self.lost += 1
            case Committed(offsets=offsets):
                self.committed.update({str(partition): offset for partition, offset in offsets.items()})


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("topic")
    parser.add_argument("--block", type=float, default=0.1)
    parser.add_argument("--quick", type=int, default=0)
    parser.add_argument("--for", dest="length", type=float, default=15.0)
    parser.add_argument("--awaits", action="store_true")
    parser.add_argument("--at-start", action="store_true")
    parser.add_argument("--streams", action="store_true")
    arguments = parser.parse_args()
    make = BlockingStreams if arguments.streams else Blocking
    handler, watch = make(arguments.block, arguments.quick, arguments.awaits, arguments.at_start), Watch()
    config = Config(offset_initial="oldest")  # the default timeouts: session_timeout 10 s, heartbeat_interval 3 s
    async with ConsumerGroup([arguments.server], f"group-{arguments.topic}", config, observers=[watch]) as group:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, [arguments.topic], handler)
            await trio.sleep(arguments.length)
            group.close_nowait()
    seen = {
        "lost": watch.lost,
        "taken": handler.taken.total(),
        "repeated": handler.taken.total() - len(handler.taken),
        "partitions": len({partition for partition, _ in handler.taken}),
        "committed": sum(watch.committed.values()),
    }
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    trio.run(main)
