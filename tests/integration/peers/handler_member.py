"""A group member with a message handler; `lines` describes its output. The value of a message says how to handle it.

quick       at once
held        after the process has received SIGUSR1, and up to half a second later
a number    that many seconds; with the argument `threads`, the handler is a plain function that blocks its thread
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Sequence

import trio

from sarameya import Config, ConsumerGroup, Event, Message, MessageHandler, Session, TopicPartition, log_event
from sarameya.observe import MembershipChanged
from tests.integration.peers.lines import MemberOptions, report, report_message


class Reports(MessageHandler):
    """Reports its partitions."""

    ordering = "key"
    concurrency = 250

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        report("assigned", (partition.partition for partition in partitions))

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        report("revoked", (partition.partition for partition in partitions))

    partitions_lost = partitions_revoked


class Gated(Reports):
    """Holds messages back until `gate` is set."""

    def __init__(self) -> None:
        self.gate = trio.Event()

    async def handle(self, message: Message) -> None:
        report("begun", [message.partition], offset=message.offset)
        if message.value == b"held":
            await self.gate.wait()
            await trio.sleep(message.offset * 7 % 50 / 100)
        report_message(message.partition, message.offset, message.value or b"")


class Blocks(Reports):
    """Blocks the thread that it is called in."""

    gate = trio.Event()

    def handle(self, message: Message) -> None:
        report("begun", [message.partition], offset=message.offset)
        time.sleep(float(message.value or b"0"))
        report_message(message.partition, message.offset, message.value or b"")


def report_membership(event: Event) -> None:
    if isinstance(event, MembershipChanged):
        report("membership", value=event.after)


async def main(options: MemberOptions, handler: Gated | Blocks) -> None:
    config = Config.from_mapping(
        {
            "client_id": options.client_id,
            "session_timeout": options.session_timeout,
            "heartbeat_interval": options.heartbeat_interval,
            "rebalance_strategies": [options.strategy],
            "offset_initial": "oldest",
            "autocommit_interval": 0.1,
            "claim_grace": 0.5,
        }
    )
    bootstrap, observers = options.bootstrap.split(","), [log_event, report_membership]
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1) as signals:
        async with ConsumerGroup(bootstrap, options.group, config, observers=observers) as group:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, [options.topic], handler)
                async for number in signals:
                    if number == signal.SIGTERM:
                        report("leaving")
                        group.close_nowait()
                        break
                    handler.gate.set()


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(message)s")
    logging.getLogger("sarameya").setLevel(logging.DEBUG)
    logging.getLogger().setLevel(logging.WARNING)
    trio.run(main, MemberOptions.begin(), Blocks() if "threads" in sys.argv else Gated())
