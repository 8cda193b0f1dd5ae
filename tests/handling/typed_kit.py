"""A handler that stores its messages, for tests of their types and formats."""

from __future__ import annotations

from typing import Any

import pytest

from sarameya import ClaimError, DecodeError, Message, MessageHandler
from sarameya.testing import ClaimFeed


class RecordingHandler(MessageHandler):
    """A handler that stores its messages."""

    def __init__(self, **options: Any) -> None:
        self.messages: list[Message[Any, Any]] = []
        for name, value in options.items():
            setattr(self, name, value)

    async def handle(self, message: Message[Any, Any]) -> None:
        self.messages.append(message)


async def handled(value: bytes | None, key: bytes | None = None, **options: Any) -> Message[Any, Any]:
    """Return the message that a handler with these options receives."""
    feed, handler = ClaimFeed("orders", at=5), RecordingHandler(**options)
    feed.send(value, key, (("trace", b"7"),), timestamp=1234)
    feed.end()
    await feed.run(handler)
    (message,) = handler.messages
    assert feed.committed == 6
    return message


async def failure(value: bytes | None, key: bytes | None = None, **options: Any) -> DecodeError:
    """Return the error of a claim whose message cannot be decoded."""
    feed, handler = ClaimFeed("orders", at=5), RecordingHandler(**options)
    feed.send(value, key)
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    (error,) = raised.value.exceptions
    assert isinstance(error, ClaimError)
    assert isinstance(error.__cause__, DecodeError)
    assert handler.messages == []
    assert feed.committed == 5
    return error.__cause__
