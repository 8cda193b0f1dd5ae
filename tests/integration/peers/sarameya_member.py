"""A group member with sarameya's consumer; `lines` describes its output. It reports each claim as one partition."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import TypeVar

import trio

from sarameya import Claim, Config, ConsumerGroup, ConsumerGroupHandler, Session, log_event
from tests.integration.peers.lines import MemberOptions, report, report_message

T = TypeVar("T")


class Reporter(ConsumerGroupHandler):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        report("assigned", [claim.partition])
        async for message in claim:
            assert message.value is not None
            report_message(message.partition, message.offset, message.value)
            session.mark_message(message)
        report("revoked", [claim.partition])


async def run_assignor(function: Callable[[], T], /) -> T:
    """Run the assignor, and report that this member leads."""
    report("led")
    return await trio.to_thread.run_sync(function)


async def main(options: MemberOptions) -> None:
    config = Config.from_mapping(
        {
            "client_id": options.client_id,
            "session_timeout": options.session_timeout,
            "heartbeat_interval": options.heartbeat_interval,
            "rebalance_strategies": [options.strategy],
            "offset_initial": "oldest",
        }
    )
    bootstrap = options.bootstrap.split(",")
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with (
            ConsumerGroup(bootstrap, options.group, config, observers=[log_event], run_sync=run_assignor) as group,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(group.consume, [options.topic], Reporter())
            async for _ in signals:
                report("leaving")
                group.close_nowait()
                break


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(message)s")
    logging.getLogger("sarameya").setLevel(logging.DEBUG)
    logging.getLogger().setLevel(logging.WARNING)
    trio.run(main, MemberOptions.begin())
