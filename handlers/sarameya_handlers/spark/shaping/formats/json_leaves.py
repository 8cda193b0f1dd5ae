"""SQL for values that `from_json` would cut, round or guess. They are parsed as text, checked, then converted.

    timestamp   seven digits of a second become six; "12:00" becomes that time today, 1700000000000 the year 55840
    date        a time after it is cut; "20000" becomes a year
    double      1e400 becomes infinite
    tinyint     128 to 255 become negative
    map         if a key has two values, one is lost, or a reader fails
    decimal     extra digits are rounded, commas ignored ("1,5" becomes 15): only Spark's variant type reveals this

Types are those of `pyspark.sql.types`; no session is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from sarameya_handlers.spark.tables.expressions import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = "[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6}0*)?"
ZONE = "(Z|[-+][0-9]{2}:?[0-9]{2})"
PATTERNS = {"timestamp": f"^{DATE}({TIME}{ZONE}?)?$", "timestamp_ntz": f"^{DATE}({TIME})?$", "date": f"^{DATE}$"}
"""Text of these types, with at most six digits of a second, and perhaps zeros after them."""
_SUSPICIOUS = '[.][0-9]{%d}|[0-9][.]?[eE][-+0-9]|"[-+.,0-9]*(?:[0-9],|,[0-9])[-+.,0-9]*"'
"""JSON text that may contain a number with too many digits after the point, or a number with a comma."""
_TINY = "tinyint"


def decimal_pattern(scale: int) -> str:
    """Return a regular expression for numbers with at most `scale` digits after the point, apart from zeros."""
    return f"^-?[0-9]+([.][0-9]{{0,{scale}}}0*)?$"


def parsed_type(kind: DataType) -> str:
    """Return the type for `from_json`: text, or a wider type, for types that are converted later."""
    return _mapped(kind, {**dict.fromkeys(PATTERNS, "string"), _TINY: "smallint"})


def is_special(kind: DataType) -> bool:
    """Return whether parsed values of the type must be checked."""
    name = kind.simpleString()
    inside = list(_inside(kind))
    if name.startswith("map<"):
        return True
    return any(map(is_special, inside)) if inside else name in (*PATTERNS, _TINY, "double", "float")


def is_exact(value: str, kind: DataType, names: count[int] | None = None) -> str:
    """Return a condition: a value of `parsed_type(kind)` converts to `kind` without loss. True for null."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    names = count() if names is None else names
    name, each = kind.simpleString(), f"c{next(names)}"
    if not is_special(kind):
        return "true"
    if isinstance(kind, StructType):
        fields = [(f"{value}.{quoted(field.name)}", field.dataType) for field in kind.fields]
        return " and ".join(is_exact(inner, of, names) for inner, of in fields if is_special(of))
    if isinstance(kind, ArrayType):
        return f"coalesce(forall({value}, {each} -> {is_exact(each, kind.elementType, names)}), true)"
    if isinstance(kind, MapType):
        values = f"forall(map_values({value}), {each} -> {is_exact(each, kind.valueType, names)})"
        keys = f"size(array_distinct(map_keys({value}))) = size(map_keys({value}))"
        return f"coalesce({keys} and {values}, true)"
    if name in PATTERNS:
        return (
            f"({value} is null or ({value} rlike {literal(PATTERNS[name])} and {converted(value, kind)} is not null))"
        )
    if name == _TINY:
        return f"coalesce({value} between -128 and 127, true)"
    return f"coalesce(abs({value}) < double('Infinity'), true)"


def converted(value: str, kind: DataType, names: count[int] | None = None) -> str:
    """Return SQL that converts an exact value of `parsed_type(kind)` to `kind`. Text without a zone is UTC."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    names = count() if names is None else names
    name, each = kind.simpleString(), f"v{next(names)}"
    if parsed_type(kind) == _mapped(kind, {}):
        return value
    if isinstance(kind, StructType):
        fields = ((field.name, f"{value}.{quoted(field.name)}", field.dataType) for field in kind.fields)
        pairs = ", ".join(f"{literal(name)}, {converted(inner, of, names)}" for name, inner, of in fields)
        return f"if({value} is null, null, named_struct({pairs}))"
    if isinstance(kind, ArrayType):
        return f"transform({value}, {each} -> {converted(each, kind.elementType, names)})"
    if isinstance(kind, MapType):
        return f"transform_values({value}, (k{each}, {each}) -> {converted(each, kind.valueType, names)})"
    if name == "timestamp":
        with_time = f"if(length({value}) = 10, concat({value}, 'T00:00:00'), {value})"
        return f"try_cast(if({value} rlike '{TIME}{ZONE}$', {value}, concat({with_time}, 'Z')) as timestamp_ltz)"
    return f"try_cast({value} as {name})"


def rounded(text: str, kind: DataType) -> str:
    """Return a condition: JSON text has a number that its decimal column would round. `false` without decimals.

    The text is parsed a second time only if it may have such a number. `from_json` reads a number of more than 38
    digits as the nearest double, which may fit the column exactly although the text does not.
    """
    scales = list(_scales(kind))
    if not scales:
        return "false"
    exact = _exact_decimals("d", kind, count())
    # As the only element of an array: a higher-order function gives the parsed value a name, so it is parsed once.
    variant = f"try_variant_get(try_parse_json({text}), '$', {literal(_mapped(kind, {}, decimals='string'))})"
    checked = f"coalesce(forall(array({variant}), d -> {exact}), false)"
    return f"({text} rlike {literal(_SUSPICIOUS % (min(scales) + 1))} and not {checked})"


def _exact_decimals(value: str, kind: DataType, names: count[int]) -> str:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    each = f"e{next(names)}"
    if not list(_scales(kind)):
        return "true"
    if isinstance(kind, DecimalType):
        return f"coalesce({value} rlike {literal(decimal_pattern(kind.scale))}, true)"
    if isinstance(kind, StructType):
        fields = [(f"{value}.{quoted(field.name)}", field.dataType) for field in kind.fields]
        return " and ".join(_exact_decimals(inner, of, names) for inner, of in fields if list(_scales(of)))
    if isinstance(kind, ArrayType):
        return f"coalesce(forall({value}, {each} -> {_exact_decimals(each, kind.elementType, names)}), true)"
    assert isinstance(kind, MapType)
    return f"coalesce(forall(map_values({value}), {each} -> {_exact_decimals(each, kind.valueType, names)}), true)"


def _scales(kind: DataType) -> Iterator[int]:
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        yield kind.scale
    for inner in _inside(kind):
        yield from _scales(inner)


def _inside(kind: DataType) -> Iterator[DataType]:
    """Yield the types directly inside a type: of fields, elements or a map's values."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        yield from (field.dataType for field in kind.fields)
    elif isinstance(kind, ArrayType):
        yield kind.elementType
    elif isinstance(kind, MapType):
        yield kind.valueType


def _mapped(kind: DataType, others: dict[str, str], decimals: str = "") -> str:
    """Return the type in SQL, with the types in `others` replaced; all but a map's keys by `decimals`, if given."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = (f"{quoted(field.name)}: {_mapped(field.dataType, others, decimals)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_mapped(kind.elementType, others, decimals)}>"
    if isinstance(kind, MapType):
        return f"map<{_mapped(kind.keyType, others)}, {_mapped(kind.valueType, others, decimals)}>"
    if decimals:
        return decimals  # only decimals are checked then, and any other type can be read as this one
    return others.get(kind.simpleString(), kind.simpleString())
