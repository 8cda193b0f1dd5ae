"""Avro, by fastavro, which is imported when it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from sarameya.errors import ConfigError, SchemaError
from sarameya.formats.errors import NotEncodableError, UndecodableError
from sarameya.registry.schemas import Schema


def parse(option: str, text: str) -> Any:
    """Return a user's schema as fastavro uses it.

    Args:
        option: Name of the option that has the schema, for errors.
        text: The schema.

    Raises:
        ConfigError: It is not valid.
    """
    try:
        return _parse(text, {}, "the Avro schema")
    except SchemaError as error:
        raise ConfigError(option, text, str(error)) from error


def parse_registered(schema: Schema, referred: Mapping[str, Schema]) -> Any:
    """Return a registered schema as fastavro uses it.

    Args:
        schema: The schema.
        referred: Schemas that it refers to, each after those that it refers to itself.

    Raises:
        SchemaError: A schema is not valid.
    """
    named: dict[str, Any] = {}
    for other in referred.values():
        _parse(other.text, named, f"Avro schema {other.id}")
    return _parse(schema.text, named, f"Avro schema {schema.id}")


def read(data: bytes, writer: Any, reader: Any) -> object:
    """Return the objects of a record.

    Args:
        data: The record, without a header.
        writer: The schema that it was written with.
        reader: The schema to resolve it to; None for the writer's own.

    Raises:
        UndecodableError: The record does not have the writer's schema, or cannot be resolved to the reader's.
    """
    from fastavro import schemaless_reader

    stream = BytesIO(data)
    try:
        value: object = schemaless_reader(stream, writer, reader)
    except Exception as error:  # noqa: BLE001 - bytes of another schema may raise anything
        text = str(error)
        raise UndecodableError(
            f"it cannot be read by its Avro schema: {type(error).__name__}{text and f': {text}'}"
        ) from None
    if rest := len(data) - stream.tell():
        raise UndecodableError(f"it has {rest} bytes more than its Avro schema describes")
    return value


def write(value: object, schema: Any) -> bytes:
    """Return a record without a header.

    Raises:
        NotEncodableError: The objects do not have this schema, or have more fields.
    """
    from fastavro import schemaless_writer

    stream = BytesIO()
    try:
        schemaless_writer(stream, schema, value, strict_allow_default=True)
    except Exception as error:  # noqa: BLE001 - objects of another type may raise anything
        raise NotEncodableError(f"it does not have the Avro schema: {error or type(error).__name__}") from None
    return stream.getvalue()


def _parse(text: str, named: dict[str, Any], what: str) -> Any:
    from fastavro import parse_schema

    try:
        return parse_schema(json.loads(text), named_schemas=named)
    except Exception as error:
        raise SchemaError(f"{what} is not valid: {type(error).__name__}: {error}") from error
