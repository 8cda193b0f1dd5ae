"""Records to send, and their places once they are stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

import attrs

from sarameya.model import Headers
from sarameya.type_variables import K_co, V_co

UNKNOWN_OFFSET = -1
"""In place of an offset: the record is stored, and its offset is not known."""
_LATEST = 2**63 - 1


class RecordMetadata(NamedTuple):
    """Place of a record that all in-sync replicas have acknowledged.

    `offset` is -1 if an earlier attempt stored the record, and the broker no longer knows at which offset.
    """

    partition: int
    offset: int


def _text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{attribute.name} must be a non-empty str, not {value!r}")


def _headers(value: Iterable[tuple[str, bytes | None]]) -> Headers:
    headers = tuple((name, content) for name, content in value)
    for name, content in headers:
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise TypeError(f"a header must be (str, bytes or None), not {(name, content)!r}")
        name.encode()  # a lone surrogate fails here, not later in a batch with other records
    return headers


def _number(high: int) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{attribute.name} must be an int or None, not {value!r}")
        if value is not None and not 0 <= value <= high:
            raise ValueError(f"{attribute.name} must be from 0 to {high}, not {value}")

    return check


@attrs.frozen(slots=True)
class ProducerRecord(Generic[V_co, K_co]):
    """Record to send. Raises TypeError or ValueError for invalid arguments.

    Key and value are bytes or None, unless the producer has formats for them.

    Without a `partition` the key determines it, as with Kafka's own producer. Without a key, any partition may be
    chosen. `timestamp` is in milliseconds since 1970, None for the time of sending. Brokers replace it in topics with
    LogAppendTime.
    """

    topic: str = attrs.field(validator=_text)
    value: V_co
    key: K_co = attrs.field(default=cast("K_co", None))
    headers: Headers = attrs.field(default=(), converter=_headers)
    partition: int | None = attrs.field(default=None, validator=_number(2**31 - 1))
    timestamp: int | None = attrs.field(default=None, validator=_number(_LATEST))

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    def __str__(self) -> str:
        return f"record for {self.topic}" if self.partition is None else f"record for {self.topic}-{self.partition}"
