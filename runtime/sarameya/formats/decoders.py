"""Decoders of keys, or of values: from bytes in a format to a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from sarameya.errors import ConfigError, RegistryError
from sarameya.formats import avro, protobuf
from sarameya.formats.errors import NoSchemaError, UndecodableError
from sarameya.formats.format import Format, checked_format
from sarameya.formats.lookups import Lookups
from sarameya.formats.packages import require
from sarameya.formats.value_types import ValueType, value_type, without_none
from sarameya.registry.client import Registry
from sarameya.registry.options import RegistryOptions
from sarameya.registry.schemas import Schema, SchemaKind
from sarameya.registry.wire import Prefix, PrefixError, read_prefix

RAW: Any = bytes | None
"""Type of a key or a value as Kafka has it. Without a format, nothing is decoded."""

OpenRegistry = Callable[[RegistryOptions], Registry]
"""Returns the client of a registry."""


class Decoder(Protocol):
    """Decoder of keys, or of values."""

    async def decode(self, data: bytes | None) -> Any:
        """Return the decoded object.

        Raises:
            UndecodableError: The bytes are not of the format, or of the type.
            NoSchemaError: The registry has not returned the schema that the bytes name.
        """


def decoder(column: str, kind: Any, chosen: Format | str | None, open_registry: OpenRegistry) -> Decoder | None:
    """Return a decoder; None if there is nothing to decode.

    Args:
        column: `key` or `value`.
        kind: The type.
        chosen: The format; None for that of the type.
        open_registry: Returns the client of a registry.

    Raises:
        ConfigError: The type or the format cannot be used.
    """
    option = f"{column}_format"
    if chosen is None:
        if kind == RAW:
            return None
        given = Format(_usual_format(kind))
    else:
        given = checked_format(option, chosen)
        _check_for_reading(option, given)
        kind = Any if kind == RAW and given.name != "bytes" else kind
    if given.name == "protobuf":
        return _protobuf(column, kind, given, open_registry)
    converts = value_type(f"{column}_type", kind)
    nothing = _Nothing(column, converts.accepts_none)
    if given.name == "avro":
        return _avro(option, given, converts, nothing, open_registry)
    if given.registry is not None:
        schemas = Lookups(_Writers(open_registry(given.registry), SchemaKind.JSON, lambda registry, schema: schema))
        return _Framed(nothing, schemas, False, lambda writer, prefix, data: converts.from_json(data))
    return _Plain(nothing, _plain(option, kind, given, converts))


def _usual_format(kind: Any) -> str:
    plain = without_none(kind)
    if protobuf.is_message_type(plain):
        return "protobuf"
    return "bytes" if plain is bytes else "string" if plain is str else "json"


def _check_for_reading(option: str, given: Format) -> None:
    names = ["subject", "version", "register", *(["schema"] if given.name == "json" else [])]
    for name in names:
        if getattr(given, name) != getattr(attrs.fields(Format), name).default:
            raise ConfigError(option, given, f"has a {name}, which is for a producer: a record names its own schema")


def _plain(option: str, kind: Any, given: Format, converts: ValueType) -> Callable[[bytes], Any]:
    plain = without_none(kind)
    if given.name == "bytes":
        if plain not in (bytes, RAW):
            raise ConfigError(option, given.name, f"decodes nothing, so the type must be bytes, not {plain}")
        return lambda data: data
    if given.name == "string":
        if not converts.accepts_text:
            raise ConfigError(option, given.name, f"decodes to text, which is no {plain}: leave it out for JSON")
        return _text if plain is str else lambda data: converts.from_object(_text(data))
    return converts.from_json


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(f"it is no UTF-8: {error.reason} at byte {error.start}") from None


def _avro(option: str, given: Format, converts: ValueType, nothing: _Nothing, open_registry: OpenRegistry) -> Decoder:
    require(option, given.name, "fastavro", "registry")
    own = None if given.schema is None else avro.parse(option, given.schema)
    if given.registry is None:
        return _Plain(nothing, lambda data: converts.from_object(avro.read(data, own, None)))

    def parsed(registry: Registry, schema: Schema) -> Any:
        return avro.parse_registered(schema, registry.referred(schema))

    schemas = Lookups(_Writers(open_registry(given.registry), SchemaKind.AVRO, parsed))
    return _Framed(nothing, schemas, False, lambda writer, _, data: converts.from_object(avro.read(data, writer, own)))


def _protobuf(column: str, kind: Any, given: Format, open_registry: OpenRegistry) -> Decoder:
    plain = without_none(kind)
    if not protobuf.is_message_type(plain):
        raise ConfigError(f"{column}_type", kind, "must be a class that protoc has generated, for 'protobuf'")
    nothing = _Nothing(column, accepts=plain is not kind)
    if given.registry is None:
        return _Plain(nothing, lambda data: protobuf.parse(plain, data))
    require(f"{column}_format", given.name, "grpc_tools", "protobuf")
    schemas = Lookups(_Writers(open_registry(given.registry), SchemaKind.PROTOBUF, protobuf.SchemaFile))

    def decode(writer: protobuf.SchemaFile, prefix: Prefix, data: bytes) -> Any:
        assert prefix.message is not None
        name = writer.message(prefix.message)
        if name != protobuf.full_name(plain):
            raise UndecodableError(f"it is a {name}, not a {protobuf.full_name(plain)}")
        return protobuf.parse(plain, data)

    return _Framed(nothing, schemas, True, decode)


class _Nothing:
    """Decodes a message without a key, or without a value."""

    def __init__(self, column: str, accepts: bool) -> None:
        self._column = column
        self._accepts = accepts

    def decode(self) -> None:
        if not self._accepts:
            tombstone = " (it is a tombstone)" if self._column == "value" else ""
            raise UndecodableError(f"the message has none{tombstone}; {self._column}_type = T | None accepts that")


class _Plain:
    """Decodes records without a header."""

    def __init__(self, nothing: _Nothing, decode: Callable[[bytes], Any]) -> None:
        self._nothing = nothing
        self._decode = decode

    async def decode(self, data: bytes | None) -> Any:
        return self._nothing.decode() if data is None else self._decode(data)


class _Framed:
    """Decodes records that start with the id of their schema.

    Args:
        nothing: Decodes None.
        schemas: What `decode` needs of the schema with an id.
        with_message: Records name a message of the schema (Protobuf).
        decode: Decodes the rest of a record.
    """

    def __init__(
        self,
        nothing: _Nothing,
        schemas: Lookups[int, Any],
        with_message: bool,
        decode: Callable[[Any, Prefix, bytes], Any],
    ) -> None:
        self._nothing = nothing
        self._schemas = schemas
        self._with_message = with_message
        self._decode = decode

    async def decode(self, data: bytes | None) -> Any:
        if data is None:
            return self._nothing.decode()
        try:
            prefix, length = read_prefix(data, with_message=self._with_message)
        except PrefixError as error:
            raise UndecodableError(str(error)) from None
        try:
            schema = await self._schemas.get(prefix.schema_id)
        except RegistryError as error:
            raise NoSchemaError(error) from error
        return self._decode(schema, prefix, data[length:])


@attrs.frozen(slots=True)
class _Writers:
    """Looks up the schemas that records were written with. Blocking.

    Attributes:
        registry: The registry.
        kind: Kind of schemas that the format has.
        prepare: Makes of a schema what the decoder needs.
    """

    registry: Registry
    kind: SchemaKind
    prepare: Callable[[Registry, Schema], Any]

    def __call__(self, schema_id: int) -> Any:
        """Return the schema with this id.

        Raises:
            UndecodableError: The registry does not know the id, or its schema is of another kind.
            RegistryError: The registry did not respond, or the schema is not valid.
        """
        schema = self.registry.schemas([schema_id]).get(schema_id)
        if schema is None:
            raise UndecodableError(f"its schema {schema_id} is unknown to {self.registry}")
        if schema.kind != self.kind:
            raise UndecodableError(f"its schema {schema_id} is {schema.kind}, not {self.kind}")
        return self.prepare(self.registry, schema)
