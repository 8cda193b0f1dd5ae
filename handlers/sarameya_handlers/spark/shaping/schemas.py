"""Differences between the schemas of a batch's rows and of their table. Pure: no Spark session.

Columns are matched by name, not by position, and ignoring case, as Spark does. Fields of structs, also in arrays and
maps, are columns with a dotted path: `value.city`, `tags.element.name`. A table calls `compare` before it writes,
refuses rows with a `Differences.problem`, and converts the others (row_conversion.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.shaping.errors import SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, DecimalType, StructField, StructType

_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Integer types from narrow to wide, with the number of decimal digits that hold them (Spark's own count)."""
_EXACT_IN_DOUBLE = ("tinyint", "smallint", "int", "float")


@attrs.frozen(slots=True)
class Column:
    """A column that only the rows or only the table have, or that is nullable in only one of them."""

    path: str
    type: str
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.path} {self.type}{'' if self.nullable else ' not null'}"


@attrs.frozen(slots=True)
class TypeChange:
    """A column that both sides have, with different types."""

    path: str
    rows: str
    table: str

    def __str__(self) -> str:
        return f"{self.path} ({self.rows} in the rows, {self.table} in the table)"


Widens = Callable[[TypeChange], bool]
"""Returns whether a table can widen a column in this way."""


def never(_: TypeChange) -> bool:
    """Return False: the table widens no column."""
    return False


@attrs.frozen(slots=True, kw_only=True)
class Differences:
    """Differences of rows and table; all empty if there are none."""

    added: tuple[Column, ...] = ()
    """Columns that the table lacks. Schema evolution adds them."""
    missing: tuple[Column, ...] = ()
    """Columns that the rows lack. They become null, or an error if the table requires them."""
    widened: tuple[TypeChange, ...] = ()
    """Columns whose values all fit into the table's wider type. They are cast without loss."""
    wider: tuple[TypeChange, ...] = ()
    """Columns whose type in the rows holds all values of the table's. Some tables can widen theirs."""
    changed: tuple[TypeChange, ...] = ()
    """Columns with incompatible types."""
    nulls: tuple[Column, ...] = ()
    """Required columns of the table that are nullable in the rows. A row with a null is refused when it is written."""

    def __bool__(self) -> bool:
        return bool(self.added or self.missing or self.widened or self.wider or self.changed or self.nulls)

    def problem(self, *, evolve_schema: bool, widens: Widens = never) -> str | None:
        """Return the reason why the rows cannot be appended, and the remedy; None if they can.

        Args:
            evolve_schema: Whether the sink may add columns to the table, and widen them.
            widens: Whether the table can widen a column in this way.
        """
        problems = []
        widening = tuple(filter(widens, self.wider))
        if incompatible := (*self.changed, *(change for change in self.wider if change not in widening)):
            problems.append(
                f"the types of {_listed(incompatible)} are incompatible: "
                "cast them in the transform, or change the table's types"
            )
        if widening and not evolve_schema:
            problems.append(
                f"the types of {_listed(widening)} are wider than the table's: cast them in the transform, widen the "
                "table's, or set evolve_schema = true"
            )
        required = [column for column in self.missing if not column.nullable]
        if required:
            problems.append(
                f"the rows have no {_listed(required)}: add it in the transform, or make it nullable in the table"
            )
        if self.added and not evolve_schema:
            problems.append(
                f"the table has no {_listed(self.added)}: add it to the table, leave it out in the transform, "
                "or set evolve_schema = true"
            )
        return "; ".join(problems) or None

    def require(self, table: str, *, evolve_schema: bool, widens: Widens = never) -> None:
        """Raise SchemaMismatchError, with the table's name, if there is a `problem`."""
        if problem := self.problem(evolve_schema=evolve_schema, widens=widens):
            raise SchemaMismatchError(f"the rows do not fit {table}: {problem}")


def compare(rows: StructType, table: StructType) -> Differences:
    """Compare the schema of rows with that of their table.

    Raises:
        SchemaMismatchError: The rows or the table have two columns of one name, which cannot be distinguished.
    """
    found: dict[str, list[Column | TypeChange]] = {}
    for kind, difference in _struct(rows, table, ""):
        found.setdefault(kind, []).append(difference)
    return Differences(**{kind: tuple(differences) for kind, differences in found.items()})  # type: ignore[arg-type]


def by_name(struct: StructType, path: str = "") -> dict[str, StructField]:
    """Return the fields of a struct by lower-case name. Raises SchemaMismatchError for two of one name."""
    fields: dict[str, StructField] = {}
    for field in struct.fields:
        if fields.setdefault(field.name.lower(), field) is not field:
            raise SchemaMismatchError(
                f"two columns are called {path}{field.name} (upper and lower case are the same to Spark): rename one"
            )
    return fields


_Found = Iterator[tuple[str, Column | TypeChange]]


def _struct(rows: StructType, table: StructType, path: str) -> _Found:
    ours, theirs = by_name(rows, path), by_name(table, path)
    for key, field in ours.items():
        if key not in theirs:
            yield "added", _column(field, path)
            continue
        if field.nullable and not theirs[key].nullable:
            yield "nulls", _column(theirs[key], path)
        yield from _types(field.dataType, theirs[key].dataType, path + theirs[key].name)
    for key, field in theirs.items():
        if key not in ours:
            yield "missing", _column(field, path)


def _types(rows: DataType, table: DataType, path: str) -> _Found:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(rows, StructType) and isinstance(table, StructType):
        yield from _struct(rows, table, f"{path}.")
    elif isinstance(rows, ArrayType) and isinstance(table, ArrayType):
        yield from _types(rows.elementType, table.elementType, f"{path}.element")
    elif isinstance(rows, MapType) and isinstance(table, MapType):
        for kind, difference in _types(rows.keyType, table.keyType, f"{path}.key"):
            yield ("changed" if kind == "wider" else kind), difference  # no table widens the keys of a map
        yield from _types(rows.valueType, table.valueType, f"{path}.value")
    elif rows.simpleString() != table.simpleString():
        change = TypeChange(path, rows.simpleString(), table.simpleString())
        yield ("widened" if fits(rows, table) else "wider" if fits(table, rows) else "changed"), change


def fits(rows: DataType, table: DataType) -> bool:
    """Return whether each value of the first type can be represented exactly in the second."""
    from pyspark.sql.types import DecimalType, NullType

    narrow, wide = rows.simpleString(), table.simpleString()
    if isinstance(rows, NullType):
        return True
    if narrow in _INTEGERS and wide in _INTEGERS:
        return _INTEGERS[narrow] < _INTEGERS[wide]
    if wide == "double":
        return narrow in _EXACT_IN_DOUBLE
    if isinstance(table, DecimalType):
        whole, digits = _digits(rows)
        return whole <= table.precision - table.scale and digits <= table.scale
    return False


def _digits(number: DataType | DecimalType) -> tuple[float, int]:
    """Return the maximum digits of a type before and after the point; infinitely many for types that are not exact."""
    from pyspark.sql.types import DecimalType

    if isinstance(number, DecimalType):
        return number.precision - number.scale, number.scale
    return _INTEGERS.get(number.simpleString(), float("inf")), 0


def _column(field: StructField, path: str) -> Column:
    return Column(path + field.name, field.dataType.simpleString(), field.nullable)


def _listed(columns: list[Column] | tuple[Column | TypeChange, ...]) -> str:
    shown = [str(column) for column in columns[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else "")


_SHOWN = 10
