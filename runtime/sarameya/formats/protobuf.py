"""Protobuf messages of generated classes. Whoever has such a class has imported Protobuf already."""

from __future__ import annotations

from typing import Any

from sarameya.errors import SchemaError
from sarameya.formats.errors import UndecodableError
from sarameya.registry.client import Registry
from sarameya.registry.schemas import Schema


def is_message_type(kind: Any) -> bool:
    """Return whether a type is a class that protoc has generated."""
    return isinstance(kind, type) and hasattr(kind, "DESCRIPTOR") and hasattr(kind, "FromString")


def full_name(kind: Any) -> str:
    """Return the full name of a generated class: `shop.Order`."""
    return str(kind.DESCRIPTOR.full_name)


def parse(kind: Any, data: bytes) -> Any:
    """Return the message in these bytes.

    Raises:
        UndecodableError: It cannot be parsed.
    """
    try:
        return kind.FromString(data)
    except Exception as error:  # noqa: BLE001 - DecodeError, or what an implementation raises instead
        raise UndecodableError(f"it is no {full_name(kind)}: {type(error).__name__}: {error}") from None


class SchemaFile:
    """The file of a registered schema, compiled.

    Args:
        registry: Has the schemas that it refers to. Requests block.
        schema: The schema.

    Raises:
        RegistryError: The registry did not respond, or a schema is not valid.
    """

    def __init__(self, registry: Registry, schema: Schema) -> None:
        from sarameya.registry.protobuf_files import file_set

        self.id = schema.id
        self._file = file_set(schema, registry.referred(schema)).file[-1]

    def message(self, path: tuple[int, ...]) -> str:
        """Return the full name of the message at an index path.

        Raises:
            UndecodableError: There is none.
        """
        from sarameya.registry.protobuf_files import message_at

        name = message_at(self._file, path)
        if name is None:
            raise UndecodableError(f"its header names message {list(path)} of schema {self.id}, which has none there")
        return name

    def path(self, name: str) -> tuple[int, ...]:
        """Return the index path of a message.

        Raises:
            SchemaError: The file has no message of this full name.
        """
        from sarameya.registry.protobuf_files import path_of

        path = path_of(self._file, name)
        if path is None:
            raise SchemaError(f"Protobuf schema {self.id} has no message {name}")
        return path
