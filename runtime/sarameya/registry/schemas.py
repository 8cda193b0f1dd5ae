"""A schema as a registry returns it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

import attrs
import msgspec


class SchemaKind(StrEnum):
    """Language of a schema, by the registry's own names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@attrs.frozen(slots=True)
class Reference:
    """A reference to another schema. `name` is its name within the referring schema."""

    name: str
    subject: str
    version: int


@attrs.frozen(slots=True)
class Schema:
    """A registered schema. Records carry its `id`; `text` never changes for one id.

    `kind` may be none of `SchemaKind`: registries support more languages.
    """

    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    @classmethod
    def from_json(cls, body: bytes, schema_id: int | None = None) -> Self:
        """Parse a registry's response to the lookup of a schema.

        Args:
            body: The response.
            schema_id: The requested id, which the response to a lookup by id does not repeat. None for a lookup by
                version, whose response has the id.

        Raises:
            ValueError: The response is not a schema.
        """
        try:
            response = msgspec.json.decode(body, type=_Response)
            number = response.id if response.id is not None else schema_id
            if number is None:
                raise ValueError("the answer has no id")
            return cls(number, response.schemaType, response.schema, tuple(response.references or ()))
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error


class _Response(msgspec.Struct):
    schema: str
    schemaType: str = SchemaKind.AVRO.value  # older registries support only Avro, and omit it
    id: int | None = None
    references: list[Reference] | None = None


def error_code(body: bytes) -> int | None:
    """Return the registry's own code in an error response; None if another server has responded."""
    try:
        response: Any = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return None
    code = response.get("error_code") if isinstance(response, dict) else None
    return code if isinstance(code, int) else None
