"""PrintHandler: prints a line for each message, to see the content of a topic."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Self, TextIO

import trio

from sarameya import Claim, ConfigError, ConsumerGroupHandler, Message, Session
from sarameya_handlers.options import check_known


class PrintHandler(ConsumerGroupHandler):
    r"""Prints each message on its own line, then marks its batch.

    Args:
        format: `text` prints `topic-partition@offset key value`, as UTF-8 with other bytes as \x…, and ∅ for None.
            `json` prints an object with topic, partition, offset, timestamp (milliseconds), key, value and headers;
            bytes are a string if they are UTF-8, else {"hex": …}.
        stream: Where to print; standard output by default.

    Raises:
        ConfigError: The format is unknown.
    """

    def __init__(self, format: str = "text", *, stream: TextIO | None = None) -> None:
        if not isinstance(format, str) or format not in _FORMATS:
            raise ConfigError("format", format, f"must be one of {', '.join(map(repr, _FORMATS))}")
        self._line = _FORMATS[format]
        self._stream = stream
        # One writer at a time, so that lines of different partitions never mix.
        self._writer = trio.CapacityLimiter(1)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Create a handler from the option `format`.

        Raises:
            ConfigError: An option is unknown or invalid.
        """
        check_known(options, ["format"])
        return cls(**options)

    @staticmethod
    def option_defaults() -> dict[str, Any]:
        """Return the defaults of the options."""
        return {"format": "text"}

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Print the claim's messages until it stops."""
        async for batch in claim.batches():
            text = "".join(f"{self._line(message)}\n" for message in batch)
            # In a thread: a slow reader of the output (a pager) must not block heartbeats.
            await trio.to_thread.run_sync(self._write, text, abandon_on_cancel=True, limiter=self._writer)
            session.mark_batch(batch)

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stdout
        stream.write(text)
        stream.flush()


def _text_line(message: Message) -> str:
    return f"{message.topic_partition}@{message.offset} {_as_text(message.key)} {_as_text(message.value)}"


def _as_text(data: bytes | None) -> str:
    return "∅" if data is None else data.decode(errors="backslashreplace")


def _json_line(message: Message) -> str:
    return json.dumps(
        {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": message.timestamp,
            "key": _as_json(message.key),
            "value": _as_json(message.value),
            "headers": [[name, _as_json(value)] for name, value in message.headers],
        },
        ensure_ascii=False,
    )


def _as_json(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


_FORMATS: dict[str, Callable[[Message], str]] = {"text": _text_line, "json": _json_line}
