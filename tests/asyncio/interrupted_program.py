"""Asyncio program that a test interrupts as by Ctrl-C. Prints a line for each step.

Its last argument is the behaviour of the handler at the first message: `wait`, or `block` the event loop.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from sarameya.asyncio import Claim, ConsumerGroup, ConsumerGroupHandler, Session
from tests.asyncio.kit import QUICK


class Handler(ConsumerGroupHandler):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message)
            print("message", flush=True)
            if sys.argv[2] == "block":
                time.sleep(600)  # noqa: ASYNC251 - blocks the loop on purpose
            await asyncio.sleep(600)

    async def cleanup(self, session: Session) -> None:
        print("cleanup", flush=True)


async def main() -> None:
    asyncio.get_running_loop().slow_callback_duration = 1e9  # depends on the machine
    async with ConsumerGroup(sys.argv[1], "billing", QUICK) as group:
        try:
            await group.consume(["orders"], Handler())
        except BaseException as error:
            print(type(error).__name__, flush=True)
            raise


if __name__ == "__main__":
    # Programs that a shell runs in the background ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asyncio.run(main(), debug=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
