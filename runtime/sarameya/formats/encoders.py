"""Encoders of keys, or of values: from objects of any type to bytes in a format."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol, TypeVar

import attrs
import msgspec

from sarameya.errors import SchemaError
from sarameya.formats import avro, protobuf
from sarameya.formats.decoders import OpenRegistry
from sarameya.formats.errors import NotEncodableError
from sarameya.formats.format import Format
from sarameya.formats.lookups import Lookups
from sarameya.formats.packages import require
from sarameya.registry.client import Registry
from sarameya.registry.schemas import Schema, SchemaKind
from sarameya.registry.wire import header, message_indexes

T = TypeVar("T")

Encode = Callable[[Any], bytes]
"""Encodes an object. Raises NotEncodableError."""

_AVRO_TYPES = (bytes, datetime.datetime, datetime.date, datetime.time, Decimal, uuid.UUID)
"""Types of Avro's logical types, which fastavro takes as they are."""


class Encoder(Protocol):
    """Encoder of keys, or of values."""

    async def encode(self, topic: str, value: Any) -> bytes:
        """Return the bytes of an object.

        Raises:
            NotEncodableError: The object does not have the format.
            RegistryError: The registry has not returned the schema.
        """


def encoder(column: str, given: Format, open_registry: OpenRegistry) -> Encoder | None:
    """Return an encoder; None for bytes.

    Args:
        column: `key` or `value`.
        given: The format.
        open_registry: Returns the client of a registry.

    Raises:
        ConfigError: The format cannot be used.
    """
    option = f"{column}_format"
    if given.name == "bytes":
        return None
    if given.name == "avro":
        require(option, given.name, "fastavro", "registry")
        if given.schema is not None:
            own = avro.parse(option, given.schema)
            if given.registry is None:
                return _Plain(lambda value: avro.write(_objects(value, _AVRO_TYPES), own))
    if given.registry is None:
        return _Plain({"string": _text, "json": _json, "protobuf": _message}[given.name])
    if given.name == "json":
        require(option, given.name, "jsonschema", "registry")
    if given.name == "protobuf":
        require(option, given.name, "grpc_tools", "protobuf")
    return _Framed(column, given, open_registry(given.registry))


def _text(value: Any) -> bytes:
    text = value if isinstance(value, str) else None if isinstance(value, bytes) else _objects(value)
    if not isinstance(text, str):
        raise NotEncodableError(f"{type(value).__name__} is no text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NotEncodableError(f"it cannot be written as UTF-8: {error.reason}") from None


def _json(value: Any) -> bytes:
    if isinstance(value, bytes):
        raise NotEncodableError("it is bytes, which would become text in base64")
    return _converted(lambda: msgspec.json.encode(value, enc_hook=_plain))


def _message(value: Any) -> bytes:
    if not protobuf.is_message_type(type(value)):
        raise NotEncodableError(f"{type(value).__name__} is no message of Protobuf")
    data: bytes = _converted(value.SerializeToString)
    return data


def _objects(value: Any, kept: tuple[type, ...] = ()) -> Any:
    """Return an object as dictionaries, lists, text and numbers, and those of the types `kept`."""
    return _converted(lambda: msgspec.to_builtins(value, builtin_types=kept, enc_hook=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "__pydantic_validator__"):
        # Names as those that the model validates.
        return value.model_dump(by_alias=True)
    raise TypeError(f"{type(value).__name__} is no type that can be encoded")


def _converted(convert: Callable[[], T]) -> T:
    try:
        return convert()
    except Exception as error:  # noqa: BLE001 - the user's own types may raise anything
        raise NotEncodableError(str(error) or type(error).__name__) from None


class _Plain:
    """Encodes records without a header."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    async def encode(self, topic: str, value: Any) -> bytes:
        return self._encode(value)


class _Framed:
    """Encodes records that start with the id of their schema."""

    def __init__(self, column: str, given: Format, registry: Registry) -> None:
        self._column = column
        self._subject = given.subject
        self._schemas = Lookups(_Subjects(given, registry))

    async def encode(self, topic: str, value: Any) -> bytes:
        encode = await self._schemas.get(self._subject or f"{topic}-{self._column}")
        return encode(value)


@attrs.frozen(slots=True)
class _Subjects:
    """Looks up the schemas of subjects. Blocking."""

    given: Format
    registry: Registry

    def __call__(self, subject: str) -> Encode:
        """Return the encoder of a subject's records.

        Raises:
            RegistryError: The registry did not respond, does not have the schema, or the schema is not valid.
        """
        given, kind = self.given, SchemaKind[self.given.name.upper()]
        if given.schema is None:
            schema = self.registry.version(subject, given.version)
        else:
            schema = self.registry.registered(subject, kind, given.schema, register=given.register)
        if schema.kind != kind:
            raise SchemaError(f"the schema of subject {subject!r} is {schema.kind}, not {kind}: name another subject")
        return {SchemaKind.AVRO: _avro, SchemaKind.JSON: _checked_json, SchemaKind.PROTOBUF: _framed_message}[kind](
            self.registry, schema
        )


def _avro(registry: Registry, schema: Schema) -> Encode:
    parsed, prefix = avro.parse_registered(schema, registry.referred(schema)), header(schema.id)
    return lambda value: prefix + avro.write(_objects(value, _AVRO_TYPES), parsed)


def _framed_message(registry: Registry, schema: Schema) -> Encode:
    file, prefix = protobuf.SchemaFile(registry, schema), header(schema.id)
    indexes: dict[str, bytes] = {}

    def encode(value: Any) -> bytes:
        data = _message(value)
        name = protobuf.full_name(type(value))
        if name not in indexes:
            indexes[name] = message_indexes(file.path(name))
        return prefix + indexes[name] + data

    return encode


def _checked_json(registry: Registry, schema: Schema) -> Encode:
    """Return an encoder that raises for a value that does not match the schema."""
    import jsonschema
    import referencing
    from referencing.jsonschema import DRAFT7

    try:
        others = [
            (name, referencing.Resource.from_contents(json.loads(other.text), default_specification=DRAFT7))
            for name, other in registry.referred(schema).items()
        ]
        document = json.loads(schema.text)
        kind = jsonschema.validators.validator_for(document, default=jsonschema.Draft7Validator)
        kind.check_schema(document)
    except (ValueError, jsonschema.SchemaError) as error:
        raise SchemaError(f"JSON schema {schema.id} is not valid: {str(error).partition(chr(10))[0]}") from error
    validator = kind(document, registry=referencing.Registry().with_resources(others))
    prefix = header(schema.id)

    def encode(value: Any) -> bytes:
        data = _json(value)
        try:
            fault = next(iter(validator.iter_errors(json.loads(data))), None)
        except referencing.exceptions.Unresolvable as error:
            raise SchemaError(f"JSON schema {schema.id} refers to {error}, which is not registered") from error
        if fault is not None:
            raise NotEncodableError(f"it does not have JSON schema {schema.id}, at {fault.json_path}: {fault.message}")
        return prefix + data

    return encode
