"""Input and output of the producer program, and a run of it."""

from __future__ import annotations

import json
import random
import sys

import attrs
import trio

from bench.members.running import MemberError
from tests.integration.peers.running import ROOT


@attrs.frozen
class SendTask:
    """Messages to send, each of `size` bytes."""

    bootstrap: str
    topic: str
    partitions: int
    messages: int
    rate: float
    """Messages per second; 0 to send them as fast as possible."""
    size: int
    keys: int = 0
    """Number of distinct keys, the same number for each partition; 0 for messages without keys."""

    def key_numbers(self) -> list[int]:
        """Return the number of each message's key, in the order of the messages. They are random, but always the same.

        Message n is in partition n % partitions. A key belongs to one partition.
        """
        generator = random.Random(self.messages)
        each = self.keys // self.partitions
        return [
            generator.randrange(each) * self.partitions + sequence % self.partitions
            for sequence in range(self.messages)
        ]


@attrs.frozen
class Sent:
    """Result of the producer."""

    failures: int
    """Number of messages that could not be sent."""
    seconds: float
    """Time from sending the first message to sending the last."""
    acknowledged: tuple[int, ...]
    """Nanoseconds until each message was acknowledged, in the order of the messages."""

    @classmethod
    def of_json(cls, text: bytes) -> Sent:
        fields = json.loads(text)
        return cls(fields["failures"], fields["seconds"], tuple(fields["acknowledged"]))


async def send(task: SendTask) -> Sent:
    """Run the producer program. Raises MemberError if it fails."""
    command = [sys.executable, "-m", "bench.latency.producer", json.dumps(attrs.asdict(task))]
    done = await trio.run_process(command, capture_stdout=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise MemberError(f"the producer ended with {done.returncode}")
    return Sent.of_json(done.stdout)
