"""A message with the key and the value that a handler wants, instead of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sarameya.errors import DecodeError
from sarameya.formats.errors import UndecodableError
from sarameya.formats.value_types import ValueType, value_type, without_none
from sarameya.model import DecodedMessage, Message

Decode = Callable[[bytes | None], Any]
"""Decodes a key or a value. Raises UndecodableError."""

RAW: Any = bytes | None
"""Type of a key or a value as Kafka has it. Nothing is decoded."""


class MessageDecoder:
    """Decoder of keys and values.

    Args:
        key_type: Type of keys.
        value_type: Type of values.

    Raises:
        ConfigError: Bytes cannot be decoded to a type.
    """

    def __init__(self, key_type: Any, value_type: Any) -> None:
        self._key = _decode("key_type", key_type)
        self._value = _decode("value_type", value_type)

    def decode(self, message: Message) -> Message[Any, Any]:
        """Return the decoded message.

        Raises:
            DecodeError: The key or the value is not of its type.
        """
        if self._key is None and self._value is None:
            return message
        return DecodedMessage(
            message.topic,
            message.partition,
            message.offset,
            message.timestamp,
            message.timestamp_type,
            _part(message, "key", self._key, message.key),
            _part(message, "value", self._value, message.value),
            message.headers,
            message.leader_epoch,
        )


def _part(message: Message, name: str, decode: Decode | None, data: bytes | None) -> Any:
    if decode is None:
        return data
    try:
        return decode(data)
    except UndecodableError as error:
        # The cause may quote the message at length.
        raise DecodeError(message.topic_partition, message.offset, name, error.problem, error.path) from None


def _decode(option: str, kind: Any) -> Decode | None:
    """Return the function that decodes to a type: from UTF-8 for a `str`, and from JSON for all but `bytes`."""
    if kind == RAW:
        return None
    plain, converts = without_none(kind), value_type(option, kind)
    if plain is bytes:
        return lambda data: _missing(option, converts) if data is None else data
    if plain is str:
        return lambda data: _missing(option, converts) if data is None else _text(data)
    return lambda data: _missing(option, converts) if data is None else converts.from_json(data)


def _missing(option: str, kind: ValueType) -> None:
    if not kind.accepts_none:
        problem = "the message has none (it is a tombstone)" if option == "value_type" else "the message has none"
        raise UndecodableError(f"{problem}; {option} = T | None accepts that")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(f"it is no UTF-8: {error.reason} at byte {error.start}") from None
