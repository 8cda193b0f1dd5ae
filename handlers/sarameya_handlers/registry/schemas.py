"""What a registry tells of a schema. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

import attrs
import msgspec


class SchemaKind(StrEnum):
    """The language of a schema, by the registry's own names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@attrs.frozen(slots=True)
class Reference:
    """Another schema that one refers to, by the `name` that it calls it."""

    name: str
    subject: str
    version: int


@attrs.frozen(slots=True)
class Schema:
    """A schema as it is registered. `id` is what records carry; `text` never changes for one id.

    `kind` may be none of `SchemaKind`: registries know more languages than these.
    """

    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    @classmethod
    def from_json(cls, body: bytes, schema_id: int | None = None) -> Self:
        """From an answer about an id, which does not repeat it, or about a version, which has it.

        Raises ValueError for anything else.
        """
        try:
            told = msgspec.json.decode(body, type=_Told)
            number = told.id if told.id is not None else schema_id
            if number is None:
                raise ValueError("the answer has no id")
            return cls(number, told.schemaType, told.schema, tuple(told.references or ()))
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error


class _Told(msgspec.Struct):
    schema: str
    schemaType: str = SchemaKind.AVRO.value  # older registries know Avro alone, and do not say so
    id: int | None = None
    references: list[Reference] | None = None


def error_code(body: bytes) -> int | None:
    """The registry's own code in an answer that is an error; None where somebody else has answered."""
    try:
        told: Any = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return None
    code = told.get("error_code") if isinstance(told, dict) else None
    return code if isinstance(code, int) else None
