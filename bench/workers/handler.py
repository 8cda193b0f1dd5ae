"""Handler of the workers: counts messages once a gate is open, and reports assigned and read partitions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

import attrs
import trio

from sarameya import Claim, ConsumerGroupHandler, Session, TopicPartition

_POLL_SECONDS = 0.005


@attrs.frozen
class WorkerLine:
    """Report of a worker, on the service's standard output.

    `assigned`  all partitions that the worker owns now
    `read`      the worker has read one partition to its end
    """

    event: str
    pid: int
    partitions: tuple[int, ...]
    messages: int = 0
    first: float = 0.0
    """Time of the first message, in seconds of the monotonic clock."""
    last: float = 0.0
    """Time of the last message."""

    @classmethod
    def of_json(cls, text: bytes) -> WorkerLine:
        fields = json.loads(text)
        return cls(**{**fields, "partitions": tuple(fields["partitions"])})


class GatedReader(ConsumerGroupHandler):
    """Pauses all partitions until a file exists, then reads each one to its end.

    Args:
        gate: Path of the file.
        ends: Log end offset of each partition.
    """

    def __init__(self, gate: str, ends: list[int]) -> None:
        self._gate = gate
        self._ends = ends

    async def setup(self, session: Session) -> None:
        session.pause_all()

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        _report("assigned", [partition.partition for partition in partitions])

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        while not os.path.exists(self._gate):  # noqa: ASYNC110, ASYNC240  another program creates it
            await trio.sleep(_POLL_SECONDS)
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
        _report("read", [claim.partition], messages=messages, first=first, last=time.monotonic())
        async for _ in claim:  # no message follows, but a claim that returns ends the session for the others
            pass


def _report(event: str, partitions: Sequence[int], **more: float) -> None:
    print(json.dumps({"event": event, "pid": os.getpid(), "partitions": sorted(partitions), **more}), flush=True)
