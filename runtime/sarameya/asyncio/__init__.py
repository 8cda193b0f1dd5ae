"""Sarameya for programs on asyncio: the same groups, consumers and producers, with handlers on asyncio's event loop.

The runtime stays on trio, in a thread of its own. What crosses the threads is a batch, not a message.

consumer_group, consumer, producer   the public classes     handlers   the interfaces that a user implements
session, claim, marks, pausing       what handlers use      bridges    handlers of trio that call those of asyncio
block, portal, mailbox, stacks   a thread, and calls between the loops
"""

from sarameya.asyncio.claim import Claim
from sarameya.asyncio.consumer import Consumer
from sarameya.asyncio.consumer_group import ConsumerGroup
from sarameya.asyncio.handlers import BatchHandler, ConsumerGroupHandler, MessageHandler
from sarameya.asyncio.producer import Producer
from sarameya.asyncio.session import Session

__all__ = [
    "BatchHandler",
    "Claim",
    "Consumer",
    "ConsumerGroup",
    "ConsumerGroupHandler",
    "MessageHandler",
    "Producer",
    "Session",
]
