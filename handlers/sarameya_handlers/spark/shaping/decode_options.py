"""Options for decoding a column of bytes. Every check raises ConfigError; no Spark here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from sarameya import ConfigError
from sarameya.formats.format import FORMATS, check_version
from sarameya.option_kinds import one_of

COLUMNS = ("key", "value")
_OPTIONS = ("format", "schema", "schema_file", "subject", "version", "message", "header")
DECODE_OPTIONS = tuple(f"{column}_{name}" for column in COLUMNS for name in _OPTIONS)
"""Every option that `Decode.from_options` reads."""
_HEADERS = ("registry", "none")


@attrs.frozen(slots=True, kw_only=True)
class Decode:
    """Decoding of one column.

    Attributes:
        format: One of FORMATS.
        schema: DDL for "json" (`id bigint, name string`), a schema's JSON for "avro", a descriptor set for "protobuf"
            (of `protoc --include_imports --descriptor_set_out`). None for the registry's schema.
        subject: Subject in the registry; None for the topic's own (`orders-value`).
        version: The subject's version.
        framed: True if each record starts with the id of its schema in a registry.
    """

    format: str = attrs.field(default="bytes", validator=one_of(*FORMATS))
    schema: str | bytes | None = None
    message: str | None = None
    """Full name of Protobuf's message (`shop.Order`). Default: the first message of the registry's schema."""
    subject: str | None = None
    version: int | str = attrs.field(default="latest", validator=check_version)
    framed: bool = False

    def __attrs_post_init__(self) -> None:
        if self.format in ("bytes", "string"):
            self._allow()
            return
        if self.format == "protobuf":
            self._allow("schema", "message", "subject", "version", "framed")
            if not self.framed and not self.message:
                raise ConfigError("message", self.message, "must name the message that a record is (shop.Order)")
        else:
            self._allow("schema", "subject", "version", "framed")
        if not self.framed and not self.schema:
            raise ConfigError("schema", self.schema, f"is required for {self.format!r}, unless there is a registry")
        if (self.schema or not self.framed) and (self.subject or self.version != "latest"):
            raise ConfigError("subject", self.subject, "must not be set with a schema, or without a registry")
        self._check_schema()

    def _allow(self, *names: str) -> None:
        for field in attrs.fields(type(self)):
            value = getattr(self, field.name)
            if field.name not in (*names, "format") and value != field.default:
                raise ConfigError(field.name, value, f"must not be set with the format {self.format!r}")

    def _check_schema(self) -> None:
        if self.schema is None:
            return
        if isinstance(self.schema, bytes) != (self.format == "protobuf"):
            raise ConfigError("schema", "...", "must be a descriptor set for 'protobuf', text for 'json' and 'avro'")
        if self.format == "avro":
            try:
                json.loads(self.schema)
            except ValueError as error:
                raise ConfigError("schema", self.schema, f"must be an Avro schema: {error}") from error

    @classmethod
    def from_options(cls, column: str, options: Mapping[str, Any], *, has_registry: bool) -> Self:
        """Read the options of `column` ("key" or "value"), named `<column>_format` and so on. Raises ConfigError."""
        given = {name: options[f"{column}_{name}"] for name in _OPTIONS if f"{column}_{name}" in options}
        try:
            for name, value in given.items():
                _check_text(name, value)
            header = given.pop("header", None)
            kind = given.get("format", "bytes")
            if kind not in ("bytes", "string") and header != "none":
                given["framed"] = has_registry
            if header not in (None, *_HEADERS) or (header == "registry" and not given.get("framed")):
                allowed = "'registry' (needs a registry) or 'none'"
                raise ConfigError("header", header, f"must be {allowed}, and only with json, avro or protobuf")
            if "schema_file" in given:
                if "schema" in given:
                    raise ConfigError("schema_file", given["schema_file"], "must not be set with schema")
                given["schema"] = _content(given.pop("schema_file"), as_bytes=kind == "protobuf")
            elif kind == "protobuf" and "schema" in given:
                raise ConfigError("schema", given["schema"], "must be schema_file for 'protobuf', a descriptor set")
            return cls(**given)
        except ConfigError as error:
            raise ConfigError(f"{column}_{error.option}", error.value, error.allowed) from None


def _check_text(name: str, value: Any) -> None:
    if name == "version" and type(value) is int:
        return
    if not isinstance(value, str) or not value:
        raise ConfigError(name, value, "must be text that is not empty")


def _content(name: str, *, as_bytes: bool) -> str | bytes:
    try:
        content = Path(name).read_bytes()
        return content if as_bytes else content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("schema_file", name, f"must be a file that can be read: {error}") from error
