"""Decoder of request and response bodies: bytes to kafka-python's messages, by kafka-python's schemas. Pure.

kafka-python's own decoder trusts the sender. The time for an endless varint grows with the square of its length. A
length beyond the end of the frame silently yields fewer bytes. A count is not compared with the bytes that follow, null
is accepted in fields that are not nullable, and each struct with tagged fields copies all bytes after it. This decoder
compares every length and count with the bytes that are left before it creates an object. So its time and memory are
proportional to the size of the frame, whatever lengths and counts the frame contains.

As in kafka-python, one decoding function is generated for each message and version. The results are instances of
kafka-python's own classes, made without their constructors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct, error, unpack_from
from typing import Any, NoReturn
from uuid import UUID

from kafka.protocol.schemas.fields.codecs import BitField

from sarameya.protocol.wire.tagged_fields import unsigned_varint

Decode = Callable[[bytes | memoryview], tuple[Any, int]]

_ZERO_UUID = bytes(16)
_BITS = Struct(">I")
_FIXED = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d", "bool": "?"}
_SIZES = {name: Struct(">" + letter).size for name, letter in _FIXED.items()} | {"uuid": 16, "bitfield": 4}


@cache
def body_decoder(message: Any, version: int) -> Decode:
    """Return the decoder of `message` (kafka-python's class) in `version`.

    The decoder returns the message and the position of its end, and raises ValueError for malformed bytes: cut off,
    with a null where the schema allows none, or with an impossible length or count. The caller decides about bytes
    after the end.
    """
    source = _DecoderSource(version, message.flexible_version_q(version))
    source.struct("body", message._struct, message[None], "    ")
    read = source.function("body")

    def decode(data: bytes | memoryview) -> tuple[Any, int]:
        try:
            return read(data, 0, len(data))
        except (IndexError, error):
            raise ValueError("the message is cut off") from None

    return decode


class _DecoderSource:
    """Source code of one function, `read(data, at, end)`, which returns the value and the position after it."""

    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._lines = ["def read(data, at, end):"]
        self._names: dict[str, Any] = {
            "varint": unsigned_varint,
            "cut_off": _cut_off,
            "null": _null,
            "new": object.__new__,
            "unpack_from": unpack_from,
            "uuid": _uuid,
            "bits": _bits,
            "tagged": _tagged,
        }
        self._name_count = 0

    def function(self, result: str) -> Callable[[bytes | memoryview, int, int], tuple[Any, int]]:
        """Compile the source into a function that returns the variable `result` and the position."""
        self._write("    ", f"return {result}, at")
        # The source is trusted: names and types in it come from kafka-python's schemas, none of it from the network.
        exec("\n".join(self._lines), self._names)
        function: Callable[[bytes | memoryview, int, int], tuple[Any, int]] = self._names["read"]
        return function

    def _write(self, indent: str, *lines: str) -> None:
        self._lines += [indent + line for line in lines]

    def _new_name(self) -> str:
        self._name_count += 1
        return f"v{self._name_count}"

    def _named(self, value: Any) -> str:
        """Make a value available to the source, and return its name there."""
        name = self._new_name()
        self._names[name] = value
        return name

    def struct(self, into: str, struct: Any, data_class: Any, indent: str) -> None:
        """Write the code that reads a struct. Adjacent fields of fixed size are unpacked together."""
        self._write(indent, f"{into} = new({self._named(data_class)})", f"{into}._version = {self._version}")
        self._write(indent, f"{into}.tags = {into}.unknown_tags = None")
        together: list[Any] = []
        for field in (*struct.untagged_fields(self._version), None):
            if field is not None and field.type_str in _FIXED and not field.is_array():
                together.append(field)
                continue
            if together:
                self._fixed([f"{into}.{each.name}" for each in together], [each.type_str for each in together], indent)
                together.clear()
            if field is not None:
                self.field(f"{into}.{field.name}", field, indent)
        for field in struct.tagged_fields(self._version)._tags.values() if self._flexible else ():
            if field.default is None:  # otherwise kafka-python would compute it at each access
                self._write(indent, f"{into}.{field.name} = None")
        if self._flexible:
            self._write(indent, "if data[at] == 0: at += 1")
            self._write(indent, f"else: at = tagged({into}, {self._tag_readers(struct)}, data, at, end)")

    def field(self, into: str, field: Any, indent: str) -> None:
        """Write the code that reads one field of any type."""
        nullable = field.nullable_for_version_q(self._version)
        if field.is_array():
            self._array(into, field, nullable, indent)
        elif field.is_struct():
            self._nested(into, field, nullable, indent)
        else:
            self._simple(into, field.name, field.type_str, nullable, indent)

    def _nested(self, into: str, field: Any, nullable: bool, indent: str) -> None:
        if nullable:
            # KIP-893: an int8 before the struct is negative for null, and 1 otherwise.
            self._write(indent, "at += 1", f"if data[at - 1] > 127: {into} = None", "else:")
            indent += "    "
        value = self._new_name()
        self.struct(value, field, field.data_class, indent)
        self._write(indent, f"{into} = {value}")

    def _simple(self, into: str, name: str, kind: str, nullable: bool, indent: str) -> None:
        if kind in _FIXED:
            self._fixed([into], [kind], indent)
        elif kind in ("uuid", "bitfield"):
            read = "uuid" if kind == "uuid" else "bits"
            self._write(indent, f"{into} = {read}(data, at)", f"at += {_SIZES[kind]}")
        else:
            inner = self._length(into, name, ">h" if kind == "string" else ">i", nullable, indent)
            value = 'str(data[at:stop], "utf-8")' if kind == "string" else "bytes(data[at:stop])"
            self._write(inner, "stop = at + n", f"if stop > end: cut_off({name!r}, n, end - at)")
            self._write(inner, f"{into} = {value}", "at = stop")

    def _fixed(self, into: list[str], kinds: list[str], indent: str) -> None:
        layout = Struct(">" + "".join(_FIXED[kind] for kind in kinds))
        unpack = self._named(layout.unpack_from)
        self._write(indent, f"{', '.join(into)}, = {unpack}(data, at)", f"at += {layout.size}")

    def _length(self, into: str, name: str, layout: str, nullable: bool, indent: str) -> str:
        """Write the code that reads a length or count into `n`. Return the indent for the code of a non-null value."""
        if self._flexible:
            # KIP-482: a compact length is the length plus 1, 0 for null, as an unsigned varint (usually of one byte).
            # After `n -= 1` null is -1, as in a length of fixed size.
            self._write(indent, "n = data[at]", "at += 1", "if n > 127: n, at = varint(data, at - 1)", "n -= 1")
        else:
            size = Struct(layout)
            self._write(indent, f"n, = {self._named(size.unpack_from)}(data, at)", f"at += {size.size}")
        self._write(indent, "if n < 0:")
        self._write(indent, f"    if n != -1: cut_off({name!r}, n, end - at)")
        self._write(indent, f"    {into} = None" if nullable else f"    null({name!r})", "else:")
        return indent + "    "

    def _array(self, into: str, field: Any, nullable: bool, indent: str) -> None:
        inner, of = self._length(into, field.name, ">i", nullable, indent), field.array_of
        self._write(inner, f"if n * {self._smallest(of)} > end - at: cut_off({field.name!r}, n, end - at)")
        if of.type_str in _FIXED:
            layout = f'f">{{n}}{_FIXED[of.type_str]}"'
            self._write(inner, f"{into} = list(unpack_from({layout}, data, at))", f"at += n * {_SIZES[of.type_str]}")
            return
        items, item = self._new_name(), self._new_name()
        self._write(inner, f"{items} = []", "for _ in range(n):")
        if field.is_struct_array():
            self.struct(item, of, of.data_class, inner + "    ")
        else:  # an element is never null, even if the array may be
            self._simple(item, field.name, of.type_str, False, inner + "    ")
        self._write(inner, f"    {items}.append({item})", f"{into} = {items}")

    def _smallest(self, field: Any) -> int:
        """Return the fewest bytes that an element of an array can take. They bound the possible count."""
        if not field.is_struct():
            return self._smallest_of(field)
        fields = field.untagged_fields(self._version)
        return sum(map(self._smallest_of, fields)) + self._flexible

    def _smallest_of(self, field: Any) -> int:
        if field.is_struct() and not field.is_array():
            return 1 if field.nullable_for_version_q(self._version) else self._smallest(field)
        if not field.is_array() and (size := _SIZES.get(field.type_str)):
            return size
        if self._flexible:
            return 1
        return 2 if field.type_str == "string" and not field.is_array() else 4

    def _tag_readers(self, struct: Any) -> str:
        """Make a table available to the source: tag -> name of the field and its reader. Return the table's name."""
        readers = {}
        for field in struct.tagged_fields(self._version)._tags.values():
            source = _DecoderSource(self._version, flexible=True)
            source.field("value", field, "    ")
            readers[field.tag] = field.name, source.function("value")
        return self._named(readers)


def _tagged(item: Any, known: dict[int, tuple[str, Any]], data: bytes | memoryview, at: int, end: int) -> int:
    """Read the tagged fields of `item` (KIP-482), skip unknown ones, and return the position after them."""
    count, at = unsigned_varint(data, at)
    for _ in range(count):
        tag, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        stop = at + size
        if stop > end:
            _cut_off(f"tagged field {tag}", size, end - at)
        if tag in known:
            name, read = known[tag]
            value, read_to = read(data, at, stop)
            if read_to != stop:
                raise ValueError(f"{name} has {read_to - at} bytes instead of {size}")
            setattr(item, name, value)
            item.tags = (item.tags or set()) | {name}
        at = stop
    return at


def _uuid(data: bytes | memoryview, at: int) -> UUID | None:
    """Return the UUID, or None for all zeros, as kafka-python does."""
    found = bytes(data[at : at + 16])
    return _uuid_of(found) if found != _ZERO_UUID else None


@lru_cache(maxsize=1000)  # each response to a fetch has the ids of its topics
def _uuid_of(data: bytes) -> UUID:
    return UUID(bytes=data)


def _bits(data: bytes | memoryview, at: int) -> Any:
    """Return a set of bits, or None if only bit 31 is set: the field was not requested."""
    found = BitField.from_32_bit_field(_BITS.unpack_from(data, at)[0])
    return None if found == {31} else found


def _cut_off(name: str, announced: int, left: int) -> NoReturn:
    raise ValueError(f"{name}: {announced} announced, {left} bytes left")


def _null(name: str) -> NoReturn:
    raise ValueError(f"{name} is null")
