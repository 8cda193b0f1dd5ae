"""Kinds of options: validators and converters, with the texts for invalid values. `config/` has the options.

A validator raises `ConfigError`, which names the option, the value and the allowed values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar

import attrs

from sarameya.errors import ConfigError
from sarameya.offset_policy import OffsetPolicy, parse_policy
from sarameya.secret import HIDDEN, Secret, is_utf8

_Kind = TypeVar("_Kind", bound=attrs.AttrsInstance)

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]

_INT32 = 2**31 - 1
MOST_SECONDS = _INT32 // 1000
"""Largest duration in seconds that fits in Kafka's requests."""
_INSTANCE_ID = re.compile(r"[0-9a-zA-Z._-]{1,249}")


def number(low: float, high: float, *, above: bool = False) -> Validator:
    """Validate a number from `low` (or above it) to `high`."""
    allowed = f"must be a number {'above' if above else 'of at least'} {low:g} and at most {high}"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(attribute.name, value, allowed)
        if not low <= value <= high or (above and value == low):  # `not low <= value` is also true for NaN
            raise ConfigError(attribute.name, value, allowed)

    return check


def whole(low: int) -> Validator:
    """Validate a whole number from `low` to the largest int32."""
    allowed = f"must be a whole number from {low} to {_INT32}"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _INT32:
            raise ConfigError(attribute.name, value, allowed)

    return check


def check_count(name: str, value: object) -> None:
    """Check that the option `name` is a whole number of at least 1.

    Raises:
        ConfigError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(name, value, "must be a whole number of at least 1")


def count(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a whole number of at least 1."""
    check_count(attribute.name, value)


def any_seconds(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a duration in seconds that is sent to no broker, and so has no upper bound."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise ConfigError(attribute.name, value, "must be a number of seconds above 0")


def optional(check: Validator) -> Validator:
    """Validate None, or a value that `check` accepts."""

    def check_unless_none(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_unless_none


def one_of(*allowed: str) -> Validator:
    """Validate one of these texts."""

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in allowed:
            raise ConfigError(attribute.name, value, f"must be one of {', '.join(map(repr, allowed))}")

    return check


def text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a string."""
    if not isinstance(value, str):
        raise ConfigError(attribute.name, value, "must be a string")
    if not is_utf8(value):
        raise ConfigError(attribute.name, value, "must be text: it has bytes in it that are not UTF-8")


def filled(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigError(attribute.name, value, "must be a non-empty string")


def check_group_id(value: object) -> None:
    """Check that a request can contain this group id. Otherwise the request would be retried forever.

    Raises:
        ConfigError: The group id is not valid.
    """
    if not (isinstance(value, str) and value):
        raise ConfigError("group_id", value, "must be a non-empty string")
    if not is_utf8(value):
        raise ConfigError("group_id", value, "must be text: it has bytes in it that are not UTF-8")


def boolean(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a bool."""
    if not isinstance(value, bool):
        raise ConfigError(attribute.name, value, "must be true or false")


def function(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a function without arguments."""
    if not callable(value):
        raise ConfigError(attribute.name, value, "must be a function without arguments")


def function_shown(value: Any) -> str:
    """Return the name of a function, or the class of another callable. Its `repr` might show secrets."""
    if value is None:
        return repr(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"<{named.__module__}.{named.__qualname__}>"


def instance_id(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a `group_instance_id`; None is allowed."""
    if value is not None and not (isinstance(value, str) and _INSTANCE_ID.fullmatch(value)):
        raise ConfigError(attribute.name, value, "must be 1 to 249 of the characters 0-9 a-z A-Z . _ -")


def as_tuple(value: Any) -> Any:
    """Convert a list (as in TOML) to a tuple. Other values stay: the validator reports them."""
    return tuple(value) if isinstance(value, list) else value


def policy(value: Any, attribute: attrs.Attribute[Any]) -> OffsetPolicy:
    """Convert the text of an offset policy; a policy stays as it is."""
    try:
        return parse_policy(value)
    except ValueError as error:
        raise ConfigError(attribute.name, value, str(error)) from None


def policy_or_none(value: Any, attribute: attrs.Attribute[Any]) -> OffsetPolicy | None:
    """Convert an offset policy; None stays None."""
    return None if value is None else policy(value, attribute)


def _secret_or_none(value: Any, attribute: attrs.Attribute[Any]) -> Secret | None:
    """Convert text by `Secret.of`; a Secret and None stay as they are."""
    if value is None or isinstance(value, Secret):
        return value
    try:
        return Secret.of(value)
    except ValueError as error:
        raise ConfigError(attribute.name, HIDDEN, str(error)) from None


def _anything(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Accept everything that the converter accepts."""


def converted(convert: Callable[[Any, attrs.Attribute[Any]], Any], default: Any, doc: str, *, kafka: str = "") -> Any:
    """Return an option with a converter, which raises ConfigError for invalid values."""
    converter = attrs.Converter(convert, takes_field=True)
    return option(default, _anything, doc, kafka=kafka, converter=converter)


def option(
    default: Any, validator: Validator, doc: str, *, kafka: str = "", converter: Any = None, shown: Any = True
) -> Any:
    """Return an attrs field.

    Args:
        default: Default value.
        validator: Checks the value.
        doc: Text for the reference.
        kafka: Kafka's own name of the option.
        converter: Converts the value first.
        shown: The argument `repr` of `attrs.field`.
    """
    return attrs.field(
        default=default,
        validator=validator,
        converter=converter,
        kw_only=True,
        repr=shown,
        metadata={"doc": doc, "kafka": kafka},
    )


def seconds(default: float, doc: str, *, above: bool = True, kafka: str = "") -> Any:
    """Return an option for a duration in seconds. If `above` is True, it must not be 0."""
    return option(default, number(0, MOST_SECONDS, above=above), doc, kafka=kafka)


def size(default: int, doc: str, *, low: int = 1, kafka: str = "") -> Any:
    """Return an option for a number of bytes."""
    return option(default, whole(low), doc, kafka=kafka)


def secret(doc: str, *, kafka: str = "") -> Any:
    """Return an option for a `Secret`, or for text as in `Secret.of`. The default is None."""
    return converted(_secret_or_none, None, doc, kafka=kafka)


def allowed(field: attrs.Attribute[Any], value: Any) -> Any:
    """Return the value if the option accepts it.

    Raises:
        ConfigError: The option does not accept it.
    """
    convert = field.converter
    if isinstance(convert, attrs.Converter):
        converted = convert.converter(value, field)  # type: ignore[attr-defined]  # its stub has no attributes
    else:
        converted = value if convert is None else convert(value)
    if field.validator is not None:
        field.validator(None, field, converted)
    return value


def unknown_option(key: str, known: set[str], *, listed: str = "") -> str:
    """Return the error text for an unknown option.

    Args:
        key: The unknown name.
        known: Names of all options. The text suggests the nearest name; if there is none, it lists all names.
        listed: A sentence that says where all options are listed. It replaces the list of names.
    """
    near = difflib.get_close_matches(key, known, n=1)
    hints = [f"did you mean {near[0]!r}?"] if near else []
    if listed:
        hints.append(listed)
    elif not near:
        hints.append(f"allowed are {', '.join(sorted(known))}")
    return f"no such option; {' '.join(hints)}"


def from_table(kind: type[_Kind], values: Any, prefix: str, unknown: Callable[[str, Any], str] | None = None) -> _Kind:
    """Create an object of options from a table.

    Args:
        kind: Its attrs class.
        values: The table.
        prefix: Put before the names of options in errors.
        unknown: Returns the error text for an unknown option and its value; by default as `unknown_option`.

    Raises:
        ConfigError: It is no table, or an option is unknown, missing or invalid.
    """
    fields = attrs.fields_dict(kind)
    if not isinstance(values, Mapping):
        raise ConfigError(prefix.rstrip("."), values, f"must be a table of {', '.join(fields)}")
    for name, value in values.items():
        if name not in fields:
            # A password whose name is misspelt must not be shown either.
            shown = value if all(field.repr for field in fields.values()) else "(hidden)"
            raise ConfigError(
                prefix + name, shown, unknown(name, value) if unknown else unknown_option(name, {*fields})
            )
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in values:
            raise ConfigError(prefix + name, None, "is required")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(prefix + error.option, error.value, error.allowed) from None


IN_THE_REFERENCE = "`sarameya config docs` lists all options"
"""Hint for the options of `Config`, which are too many for one line."""
