"""Descriptions of faulty JSON records: the field, the expected and the actual value.

For records that Spark has refused. The rules here are our own; a test compares them with Spark's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sarameya_handlers.spark.shaping.formats.json_leaves import PATTERNS

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_SHOWN = 40
"""Number of characters shown of a value."""
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_LARGEST = {"double": Decimal("1.7976931348623157e308"), "float": Decimal("3.4028234663852886e38")}
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (Decimal, "a number"),
    (str, "text"),
    (list, "an array"),
    (dict, "an object"),
)
"""JSON names of Python types. bool comes first, since it is a subclass of int."""
_Fault = tuple[str, str]
"""A field's path, and its fault."""


class _BadError(Exception):
    """The record is not JSON. The text is the reason."""


def describe_fault(record: bytes, kind: DataType) -> str | None:
    """Return the reason why a record is not JSON of this type, in one line; None if no fault is found."""
    try:
        found = _parse(record)
    except _BadError as error:
        return str(error)
    return next((f"{path or 'the value'}: {fault}" for path, fault in _faults(found, kind, "")), None)


def _parse(record: bytes) -> Any:
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        raise _BadError(f"byte {error.start} is no UTF-8") from None
    if text.startswith("\ufeff"):
        raise _BadError("a byte order mark stands before the JSON")
    if not text.strip(" \t\r\n"):
        raise _BadError("no JSON at all: it is empty")
    try:
        found, end = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse).raw_decode(text.lstrip(" \t\r\n"))
    except json.JSONDecodeError as error:
        raise _BadError(f"no JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _BadError("it is nested too deep") from None
    except (ValueError, ArithmeticError):  # beyond what int and Decimal read
        raise _BadError("it has a number that is too long") from None
    if rest := text.lstrip(" \t\r\n")[end:].strip(" \t\r\n"):
        raise _BadError(f"the JSON value is followed by {_shown(rest)}: a record must be one value")
    return found


def _refuse(constant: str) -> None:
    raise _BadError(f"no JSON: {constant} is not a JSON number")


def _faults(found: Any, kind: DataType, path: str) -> Iterator[_Fault]:
    """Yield the faults of a value in order."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if found is None:
        return
    if isinstance(kind, StructType):
        if not isinstance(found, dict):
            yield _type_fault(path, "an object", found)
            return
        for field in kind.fields:
            yield from _faults(found.get(field.name), field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(kind, MapType):
        if not isinstance(found, dict):
            yield _type_fault(path, "an object", found)
            return
        for key, value in found.items():
            yield from _faults(value, kind.valueType, f"{path}[{_shown(key)}]")
    elif isinstance(kind, ArrayType):
        if not isinstance(found, list):
            yield _type_fault(path, "an array", found)
            return
        for index, value in enumerate(found):
            yield from _faults(value, kind.elementType, f"{path}[{index}]")
    else:
        yield from _leaf_faults(found, kind.simpleString(), path)


def _leaf_faults(found: Any, name: str, path: str) -> Iterator[_Fault]:
    is_number = isinstance(found, int | Decimal) and not isinstance(found, bool)
    if name in _BITS:
        if not isinstance(found, int) or isinstance(found, bool):
            yield _type_fault(path, name, found)
        elif not -(1 << _BITS[name] - 1) <= found < 1 << _BITS[name] - 1:
            yield path, f"{_shown(found)} is out of the range of {name}"
    elif name == "boolean":
        if not isinstance(found, bool):
            yield _type_fault(path, name, found)
    elif name in _LARGEST:
        if not is_number:
            yield _type_fault(path, name, found)
        elif Decimal(found).copy_abs() > _LARGEST[name]:  # `abs` would round it
            yield path, f"{_shown(found)} is out of the range of {name}"
    elif name.startswith("decimal"):
        yield from _decimal_faults(found, name, path)
    elif name in PATTERNS:
        yield from _time_faults(found, name, path)
    elif name == "string" and _has_surrogates(found):
        yield path, "half of a surrogate pair is no character"


def _decimal_faults(found: Any, name: str, path: str) -> Iterator[_Fault]:
    precision, scale = map(int, re.findall(r"[0-9]+", name))
    # Spark also accepts text for a decimal.
    if isinstance(found, bool) or not isinstance(found, int | Decimal | str):
        yield _type_fault(path, name, found)
        return
    try:
        number = Decimal(found)
    except ArithmeticError:
        yield _type_fault(path, name, found)
        return
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):  # NaN or infinity
        yield _type_fault(path, name, found)
    elif number and exponent + _trailing_zeros(digits) < -scale:
        yield path, f"{_shown(found)} has more digits than {name}, which would round it"
    elif number and number.adjusted() >= precision - scale:
        yield path, f"{_shown(found)} is out of the range of {name}"


def _trailing_zeros(digits: tuple[int, ...]) -> int:
    return sum(1 for _ in takewhile(lambda digit: digit == 0, reversed(digits)))


def _time_faults(found: Any, name: str, path: str) -> Iterator[_Fault]:
    if not isinstance(found, str):
        yield _type_fault(path, f"{name} as text", found)
    elif not re.match(PATTERNS[name], found):
        yield path, f"{_shown(found)} is no {name} of ISO 8601, or has more than six digits of a second"
    elif not _is_in_calendar(found, name):
        yield path, f"{_shown(found)} is no {name} of the calendar"


def _is_in_calendar(text: str, name: str) -> bool:
    try:
        if name == "date":
            date.fromisoformat(text)
        else:
            datetime.fromisoformat(re.sub(r"([.][0-9]{6})0*", r"\1", text))
    except ValueError:
        return text.startswith("0000-")  # Spark has a year 0, Python has not
    return True


def _has_surrogates(found: Any) -> bool:
    text = found if isinstance(found, str) else json.dumps(found, default=str, ensure_ascii=False)
    return any("\ud800" <= character <= "\udfff" for character in text)


def _type_fault(path: str, expected: str, found: Any) -> _Fault:
    actual = next(name for kind, name in _KINDS if isinstance(found, kind))
    shown = "" if isinstance(found, list | dict) else f" ({_shown(found)})"
    return path, f"expected {expected}, found {actual}{shown}"


def _shown(found: Any) -> str:
    text = repr(found) if isinstance(found, str) else str(found).lower()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
