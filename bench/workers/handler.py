"""The handler of the workers: it counts messages, once a gate is open, and tells what it was assigned and has read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

import attrs
import trio

from sarameya import Claim, ConsumerGroupHandler, Session, TopicPartition

_LOOK_SECONDS = 0.005


@attrs.frozen
class WorkerLine:
    """One thing that a worker tells, on the service's standard output.

    `assigned`  all partitions that it has now
    `read`      it has read one partition to its end
    """

    event: str
    pid: int
    partitions: tuple[int, ...]
    messages: int = 0
    first: float = 0.0
    """When the first of them came, in seconds of the monotonic clock,"""
    last: float = 0.0
    """and the last."""

    @classmethod
    def of_json(cls, text: bytes) -> WorkerLine:
        told = json.loads(text)
        return cls(**{**told, "partitions": tuple(told["partitions"])})


class GatedReader(ConsumerGroupHandler):
    """Holds all partitions back until the file `gate` is there, then reads each to its end (`ends`, by partition)."""

    def __init__(self, gate: str, ends: list[int]) -> None:
        self._gate = gate
        self._ends = ends

    async def setup(self, session: Session) -> None:
        session.pause_all()

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        _say("assigned", [partition.partition for partition in partitions])

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        while not os.path.exists(self._gate):  # noqa: ASYNC110, ASYNC240  whoever opens it is another program
            await trio.sleep(_LOOK_SECONDS)
        session.resume_all()
        last = self._ends[claim.partition] - 1
        messages = 0
        first = 0.0
        async for message in claim:
            if not messages:
                first = time.monotonic()
            messages += 1
            if message.offset == last:
                break
        _say("read", [claim.partition], messages=messages, first=first, last=time.monotonic())
        async for _ in claim:  # there is nothing more; a claim that returned would end the session for the others
            pass


def _say(event: str, partitions: Sequence[int], **more: float) -> None:
    print(json.dumps({"event": event, "pid": os.getpid(), "partitions": sorted(partitions), **more}), flush=True)
