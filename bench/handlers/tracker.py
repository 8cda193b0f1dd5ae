"""CPU time of the completion tracker, without a broker."""

from __future__ import annotations

import random
import time

from bench.handlers.figures import CONCURRENCY
from sarameya import TopicPartition
from sarameya.protocol.offset_ledger import OffsetLedger

COMMIT_EVERY = 1000
_PARTITION = TopicPartition("tracked", 0)
_TOPIC_ID = "7" * 32
_LEADER_EPOCH = 1


def track(messages: int) -> tuple[float, int]:
    """Hand messages out, finish them in random order, and commit them.

    Returns:
        CPU seconds a message, and the size of the longest metadata of a commit.
    """
    order = _finishing_order(messages)
    ledger = OffsetLedger({_PARTITION: None})
    tracker = ledger.track(_PARTITION, _TOPIC_ID, 0, lambda offset: None)
    for offset in range(CONCURRENCY):
        tracker.hand_out(offset, _LEADER_EPOCH)
    longest = 0
    start = time.thread_time()
    for count, finished in enumerate(order, 1):
        ledger.finish(_PARTITION, finished, _LEADER_EPOCH)
        assert tracker.in_flight < CONCURRENCY
        assert tracker.has_room
        tracker.hand_out(CONCURRENCY + count - 1, _LEADER_EPOCH)
        if count % COMMIT_EVERY == 0:
            offsets = ledger.dirty()
            ledger.send(offsets)
            ledger.acknowledge(offsets)
            longest = max(longest, *(len(offset.metadata) for offset in offsets.values()))
    return (time.thread_time() - start) / messages, longest


def _finishing_order(messages: int) -> list[int]:
    """Return offsets in the order in which they finish: each is one of the unfinished ones, by chance."""
    generator = random.Random(1)
    unfinished = list(range(CONCURRENCY))
    order = []
    for offset in range(CONCURRENCY, CONCURRENCY + messages):
        place = generator.randrange(CONCURRENCY)
        order.append(unfinished[place])
        unfinished[place] = offset
    return order
