"""What the producer is told and tells."""

from __future__ import annotations

import json

import attrs


@attrs.frozen
class Sending:
    """What to send."""

    bootstrap: str
    topic: str
    partitions: int
    messages: int
    rate: float
    size: int


@attrs.frozen
class Sent:
    """What was sent."""

    failures: int
    seconds: float
    """From the first to the last."""
    acknowledged: tuple[int, ...]
    """How late the producer heard that each message was in the log, in nanoseconds, as they came."""

    @classmethod
    def of_json(cls, text: bytes) -> Sent:
        told = json.loads(text)
        return cls(told["failures"], told["seconds"], tuple(told["acknowledged"]))
