"""Format of keys or values, as a user names it. The words are those of the Spark sink's options."""

from __future__ import annotations

import json
from typing import Any

import attrs

from sarameya.errors import ConfigError
from sarameya.option_kinds import boolean, filled, one_of, optional
from sarameya.registry.options import RegistryOptions

FORMATS = ("bytes", "string", "json", "avro", "protobuf")


def _registry(value: Any) -> Any:
    return RegistryOptions(url=value) if isinstance(value, str | list) else value


def _check_registry(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, RegistryOptions):
        raise ConfigError(attribute.name, value, "must be the registry's URL, or RegistryOptions")


def check_version(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate the version of a subject in a registry."""
    if value != "latest" and (type(value) is not int or value < 1):
        raise ConfigError(attribute.name, value, "must be 'latest' or the number of a version")


@attrs.frozen(slots=True)
class Format:
    """Format of keys or values: `MessageHandler.value_format`, or an argument of a `Producer`.

    Example::

        Format("avro", registry="http://registry:8081")

    With a registry, each record starts with the id of its schema, as the serializers of Confluent write it. A consumer
    needs no other schema: the registry has it. A producer uses the latest schema of a subject, and registers none.

    Attributes:
        name: `bytes`, `string` (UTF-8), `json`, `avro` or `protobuf`.
        schema: For `avro`: the schema of records without a registry. With a registry: the reader's schema for a
            consumer, to which records are resolved, and the writer's schema for a producer, which has to be registered.
            For `json` with a registry: the JSON Schema of a producer.
        registry: The schema registry: its URL, or RegistryOptions with credentials.
        subject: For a producer: the subject in the registry; None for the topic's own (`orders-value`).
        version: For a producer without `schema`: the subject's version.
        register: For a producer: register `schema` if it is not registered.
    """

    name: str = attrs.field(validator=one_of(*FORMATS))
    schema: str | None = attrs.field(default=None, validator=optional(filled), kw_only=True)
    registry: RegistryOptions | None = attrs.field(
        default=None, converter=_registry, validator=_check_registry, kw_only=True
    )
    subject: str | None = attrs.field(default=None, validator=optional(filled), kw_only=True)
    version: int | str = attrs.field(default="latest", validator=check_version, kw_only=True)
    register: bool = attrs.field(default=False, validator=boolean, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.name in ("bytes", "string"):
            self._refuse(f"must not be set for {self.name!r}", "schema", "registry")
        if self.name == "protobuf":
            self._refuse("must not be set for 'protobuf', whose type has the schema", "schema")
        if self.registry is None:
            self._refuse("must not be set without a registry", "subject", "version", "register")
            if self.name == "avro" and self.schema is None:
                raise ConfigError("schema", None, "is required for 'avro', unless there is a registry")
            if self.name == "json":
                self._refuse("must not be set for 'json' without a registry", "schema")
        if self.schema is None:
            self._refuse("must not be set without a schema", "register")
        else:
            self._refuse("must not be set with a schema", "version")
            try:
                json.loads(self.schema)
            except ValueError as error:
                raise ConfigError("schema", self.schema, f"must be a schema as JSON: {error}") from error

    def _refuse(self, reason: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value != getattr(attrs.fields(type(self)), name).default:
                raise ConfigError(name, value, reason)


def checked_format(option: str, value: Any) -> Format:
    """Return a format for a name of one, or for a Format.

    Args:
        option: Name of the option, for errors.
        value: Its value.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(value, Format):
        return value
    if isinstance(value, str):
        try:
            return Format(value)
        except ConfigError as error:
            text = error.allowed if error.option == "name" else f"{error.option} {error.allowed}: give a Format"
            raise ConfigError(option, value, text) from None
    raise ConfigError(option, value, f"must be a Format, or one of {', '.join(map(repr, FORMATS))}")
