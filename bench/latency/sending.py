"""Input and output of the producer program."""

from __future__ import annotations

import json

import attrs


@attrs.frozen
class SendTask:
    """Messages to send: `size` bytes each, `rate` messages per second."""

    bootstrap: str
    topic: str
    partitions: int
    messages: int
    rate: float
    size: int


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
