"""Protobuf messages as Arrow columns, by Google's own parser.

Runs in Spark's Python workers, which have protobuf and pyarrow, but perhaps not this package. So this file imports
nothing else of this package, and is sent to the workers as a whole. It works on columns, not rows: it converts each
field's values of all messages at once, so that Python does little work per message.

| Protobuf | column |
|---|---|
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int; bigint |
| uint32, fixed32; uint64, fixed64 | bigint; decimal(20,0) |
| float, double, bool, string, bytes | float, double, boolean, string, binary |
| enum | string: the value's name, or its number as text if the schema does not have it |
| message; a message without fields | struct; boolean, true if it is set |
| repeated, map | array, map |
| google.protobuf.Timestamp; wrappers | timestamp (microseconds); the value, or null |
| a message that contains itself (google.protobuf.Struct is one) | string: its JSON |

An absent field is null if Protobuf can represent absence (a message, proto3's `optional`, a member of a oneof, proto2's
`optional`). Otherwise it has Protobuf's default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

Make = Callable[[list[Any]], Any]
"""Builds an Arrow array of values, some of which may be None."""

_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMESTAMP = "google.protobuf.Timestamp"


def message_class(descriptor_set: bytes, message: str) -> Any:
    """Return the class of a message. Raises ValueError for a broken descriptor set, KeyError for an unknown message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
        for file in files.file:
            pool.Add(file)
    except (DecodeError, TypeError) as error:
        raise ValueError(str(error)) from error
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))


def arrow_type(message: Any) -> Any:
    """Return the Arrow type of a column with messages of this class."""
    return _message(message.DESCRIPTOR)[0]


def columns(message: Any) -> Callable[[Sequence[bytes | None], Sequence[int]], Any]:
    """Return a function that builds an Arrow array from records' bytes and offsets.

    That function raises ValueError, with the offset, for bytes that are not such a message.
    """
    from google.protobuf.message import DecodeError

    make = _message(message.DESCRIPTOR)[1]
    parse = message.FromString

    def parsed(record: bytes | None, offset: int) -> Any:
        try:
            return None if record is None else parse(record)
        except DecodeError as error:
            name = message.DESCRIPTOR.full_name
            raise ValueError(f"the record at offset {offset} is not a {name}: {error}") from error

    return lambda records, offsets: make(list(map(parsed, records, offsets)))


class UnknownPrefixError(ValueError):
    """A record does not start with an accepted prefix."""


def bodies(
    records: Sequence[bytes | None], prefixes: Collection[bytes] | None, offsets: Sequence[int]
) -> Sequence[bytes | None]:
    """Return the records without their prefixes.

    Args:
        records: Bytes of records.
        prefixes: Accepted prefixes; None if records have no prefix.
        offsets: Offsets of the records.

    Raises:
        UnknownPrefixError: A record has another prefix. The text has its offset.
    """
    if prefixes is None:
        return records
    known = frozenset(prefixes)
    lengths = sorted({len(prefix) for prefix in known})

    def body(record: bytes | None, offset: int) -> bytes | None:
        if record is None:
            return None
        for length in lengths:
            if record[:length] in known:
                return record[length:]
        raise UnknownPrefixError(f"the record at offset {offset} does not begin with the id of a known schema")

    return list(map(body, records, offsets))


def _message(descriptor: Any) -> tuple[Any, Make]:
    import pyarrow as pa

    if descriptor.full_name == _TIMESTAMP:
        kind = pa.timestamp("us", "UTC")
        return kind, lambda values: pa.array([None if v is None else _micros(v) for v in values], pa.int64()).cast(kind)
    if descriptor.full_name in _WRAPPERS:
        kind, make = _scalar(descriptor.fields_by_name["value"])
        return kind, lambda values: make([None if v is None else v.value for v in values])
    if _contains_itself(descriptor):
        return pa.string(), lambda values: pa.array([None if v is None else _json(v) for v in values], pa.string())
    if not descriptor.fields:
        return pa.bool_(), lambda values: pa.array([None if v is None else True for v in values], pa.bool_())
    return _struct(descriptor)


def _struct(descriptor: Any) -> tuple[Any, Make]:
    import pyarrow as pa

    fields = [(field.name, _field(field), _getter(field)) for field in descriptor.fields]
    kind = pa.struct([pa.field(name, column[0]) for name, column, _ in fields])

    def make(values: list[Any]) -> Any:
        arrays = [column[1]([None if v is None else get(v) for v in values]) for _, column, get in fields]
        mask = pa.array([v is None for v in values], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)

    return kind, make


def _getter(field: Any) -> Callable[[Any], Any]:
    name = field.name
    if field.is_repeated or not field.has_presence:
        return lambda message: getattr(message, name)
    return lambda message: getattr(message, name) if message.HasField(name) else None


def _field(field: Any) -> tuple[Any, Make]:
    message = field.message_type
    if field.is_repeated and message is not None and message.GetOptions().map_entry:
        return _map(message)
    single = _message(message) if message is not None else _scalar(field)
    return _list(single) if field.is_repeated else single


def _list(element: tuple[Any, Make]) -> tuple[Any, Make]:
    import pyarrow as pa

    kind, make_element = element

    def make(values: list[Any]) -> Any:
        offsets, flat = _flattened(values)
        return pa.ListArray.from_arrays(offsets, make_element(flat))

    return pa.list_(kind), make


def _map(entry: Any) -> tuple[Any, Make]:
    import pyarrow as pa

    key_kind, make_keys = _scalar(entry.fields_by_name["key"])
    item_kind, make_items = _field(entry.fields_by_name["value"])

    def make(values: list[Any]) -> Any:
        offsets, keys = _flattened(values)
        items = [mapping[key] for mapping in values if mapping is not None for key in mapping]
        return pa.MapArray.from_arrays(offsets, make_keys(keys), make_items(items))

    return pa.map_(key_kind, item_kind), make


def _flattened(values: list[Any]) -> tuple[Any, list[Any]]:
    import pyarrow as pa

    offsets, flat = [0], []
    for value in values:
        if value is not None:
            flat.extend(value)
        offsets.append(len(flat))
    return pa.array(offsets, pa.int32()), flat


def _scalar(field: Any) -> tuple[Any, Make]:
    import decimal

    import pyarrow as pa

    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return pa.string(), lambda values: pa.array(
            [None if v is None else names.get(v, str(v)) for v in values], pa.string()
        )
    kind = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }[field.cpp_type]
    if field.cpp_type == field.CPPTYPE_UINT64:
        return kind, lambda values: pa.array([None if v is None else decimal.Decimal(v) for v in values], kind)
    return kind, lambda values: pa.array(values, kind)


def _contains_itself(descriptor: Any) -> bool:
    seen: set[str] = set()
    waiting = [descriptor]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is None:
                continue
            if inner.full_name == descriptor.full_name:
                return True
            if inner.full_name not in seen:
                seen.add(inner.full_name)
                waiting.append(inner)
    return False


def _micros(timestamp: Any) -> int:
    return int(timestamp.seconds * 1_000_000 + timestamp.nanos // 1000)


def _json(message: Any) -> str:
    from google.protobuf import json_format

    return str(json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False))
