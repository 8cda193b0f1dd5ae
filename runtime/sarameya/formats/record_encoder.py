"""A record with the bytes of its key and value, instead of objects."""

from __future__ import annotations

from functools import cache
from typing import Any

from sarameya.errors import EncodeError
from sarameya.formats.encoders import Encoder, encoder
from sarameya.formats.errors import NotEncodableError
from sarameya.formats.format import Format, checked_format
from sarameya.registry.client import Registry


class RecordEncoder:
    """Encoder of keys and values.

    Args:
        key_format: Format of keys.
        value_format: Format of values.

    Raises:
        ConfigError: A format cannot be used.
    """

    def __init__(self, key_format: Format | str, value_format: Format | str) -> None:
        # One client of a registry for both, with one cache.
        open_registry = cache(Registry)
        self._key = encoder("key", checked_format("key_format", key_format), open_registry)
        self._value = encoder("value", checked_format("value_format", value_format), open_registry)

    async def encode(self, topic: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """Return the bytes of a record's key and value. None stays None: no key, or a tombstone.

        Raises:
            EncodeError: The key or the value does not have its format.
            RegistryError: The registry has not returned the schema.
            TypeError: The key or the value has no format, and is not bytes.
        """
        return await _part(topic, "key", self._key, key), await _part(topic, "value", self._value, value)


async def _part(topic: str, name: str, encoder: Encoder | None, value: Any) -> bytes | None:
    if value is None:
        return None
    if encoder is None:
        if not isinstance(value, bytes):
            kind = type(value).__name__
            raise TypeError(f"{name} must be bytes or None, not {kind}; set {name}_format to encode other types")
        return value
    try:
        return await encoder.encode(topic, value)
    except NotEncodableError as error:
        raise EncodeError(topic, name, str(error)) from None
