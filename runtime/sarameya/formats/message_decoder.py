"""A message with the key and the value that a handler wants, instead of bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

from sarameya.errors import DecodeError
from sarameya.formats.decoders import Decoder, decoder
from sarameya.formats.errors import UndecodableError
from sarameya.formats.format import Format
from sarameya.model import DecodedMessage, Message
from sarameya.registry.client import Registry


class MessageDecoder:
    """Decoder of keys and values.

    Args:
        key_type: Type of keys.
        key_format: Their format; None for the usual one of the type.
        value_type: Type of values.
        value_format: Their format; None for the usual one of the type.

    Raises:
        ConfigError: A type or a format cannot be used.
    """

    def __init__(
        self, key_type: Any, key_format: Format | str | None, value_type: Any, value_format: Format | str | None
    ) -> None:
        # One client of a registry for both, with one cache.
        open_registry = cache(Registry)
        self._key = decoder("key", key_type, key_format, open_registry)
        self._value = decoder("value", value_type, value_format, open_registry)
        formats = [given for given in (key_format, value_format) if isinstance(given, Format)]
        self.looks_up = any(given.registry is not None for given in formats)
        """True if `decode` may wait for a registry."""

    async def decode(self, message: Message) -> Message[Any, Any]:
        """Return the decoded message.

        Raises:
            DecodeError: The key or the value is not of its format, or of its type.
            NoSchemaError: The registry has not returned the schema that the message names.
        """
        if self._key is None and self._value is None:
            return message
        key: Any = message.key if self._key is None else await _part(message, "key", self._key, message.key)
        value: Any = message.value if self._value is None else await _part(message, "value", self._value, message.value)
        return DecodedMessage(
            message.topic,
            message.partition,
            message.offset,
            message.timestamp,
            message.timestamp_type,
            key,
            value,
            message.headers,
            message.leader_epoch,
        )


async def _part(message: Message, name: str, decoder: Decoder, data: bytes | None) -> Any:
    try:
        return await decoder.decode(data)
    except UndecodableError as error:
        # The cause may quote the message at length.
        raise DecodeError(message.topic_partition, message.offset, name, error.problem, error.path) from None
