"""What an option can be: tests of its value, and the words for what is allowed. Which options there are, `config/`
says. A test raises `ConfigError`, which names the option, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

import attrs

from sarameya.errors import ConfigError
from sarameya.offset_policy import OffsetPolicy, parse_policy
from sarameya.secret import HIDDEN, Secret, is_utf8

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]

_INT32 = 2**31 - 1
MOST_SECONDS = _INT32 // 1000
"""The most seconds that a duration can be where Kafka's requests carry it."""
_INSTANCE_ID = re.compile(r"[0-9a-zA-Z._-]{1,249}")


def number(low: float, high: float, *, above: bool = False) -> Validator:
    """From `low` (or above it) to `high`."""
    allowed = f"must be a number {'above' if above else 'of at least'} {low:g} and at most {high}"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(attribute.name, value, allowed)
        if not low <= value <= high or (above and value == low):  # so put, it refuses NaN
            raise ConfigError(attribute.name, value, allowed)

    return check


def whole(low: int, high: int = _INT32) -> Validator:
    """A whole number, from `low` to `high`."""
    allowed = f"must be a whole number from {low} to {high}"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(attribute.name, value, allowed)

    return check


def optional(check: Validator) -> Validator:
    """None, or what `check` allows."""

    def check_unless_none(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_unless_none


def one_of(*allowed: str) -> Validator:
    """One of these words."""

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in allowed:
            raise ConfigError(attribute.name, value, f"must be one of {', '.join(map(repr, allowed))}")

    return check


def text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigError(attribute.name, value, "must be a string")
    if not is_utf8(value):
        raise ConfigError(attribute.name, value, "must be text: it has bytes in it that are not UTF-8")


def boolean(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(attribute.name, value, "must be true or false")


def function(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not callable(value):
        raise ConfigError(attribute.name, value, "must be a function without arguments")


def function_shown(value: Any) -> str:
    """A function by its name; anything else that is called, by its class's alone: it may have secrets bound to it."""
    if value is None:
        return repr(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"<{named.__module__}.{named.__qualname__}>"


def instance_id(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _INSTANCE_ID.fullmatch(value)):
        raise ConfigError(attribute.name, value, "must be 1 to 249 of the characters 0-9 a-z A-Z . _ -")


def as_tuple(value: Any) -> Any:
    """Lists (as TOML gives them) become tuples; anything else is left for the validator to name."""
    return tuple(value) if isinstance(value, list) else value


def policy(value: Any, attribute: attrs.Attribute[Any]) -> OffsetPolicy:
    """A converter: an offset policy, or its text."""
    try:
        return parse_policy(value)
    except ValueError as error:
        raise ConfigError(attribute.name, value, str(error)) from None


def policy_or_none(value: Any, attribute: attrs.Attribute[Any]) -> OffsetPolicy | None:
    return None if value is None else policy(value, attribute)


def _secret_or_none(value: Any, attribute: attrs.Attribute[Any]) -> Secret | None:
    """A converter: a Secret, or what `Secret.of` makes one of."""
    if value is None or isinstance(value, Secret):
        return value
    try:
        return Secret.of(value)
    except ValueError as error:
        raise ConfigError(attribute.name, HIDDEN, str(error)) from None


def _anything(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """What the converter lets pass is allowed."""


def converted(convert: Callable[[Any, attrs.Attribute[Any]], Any], default: Any, doc: str, *, kafka: str = "") -> Any:
    """An option whose value `convert` makes of what is given, or refuses."""
    converter = attrs.Converter(convert, takes_field=True)
    return option(default, _anything, doc, kafka=kafka, converter=converter)


def option(
    default: Any, validator: Validator, doc: str, *, kafka: str = "", converter: Any = None, shown: Any = True
) -> Any:
    """An attrs field; `kafka` is Kafka's own name for it, `shown` what `repr` makes of its value."""
    return attrs.field(
        default=default,
        validator=validator,
        converter=converter,
        kw_only=True,
        repr=shown,
        metadata={"doc": doc, "kafka": kafka},
    )


def seconds(default: float, doc: str, *, above: bool = True, kafka: str = "") -> Any:
    """A duration; `above`: it may not be 0."""
    return option(default, number(0, MOST_SECONDS, above=above), doc, kafka=kafka)


def size(default: int, doc: str, *, low: int = 1, kafka: str = "") -> Any:
    """A number of bytes."""
    return option(default, whole(low), doc, kafka=kafka)


def secret(doc: str, *, kafka: str = "") -> Any:
    """A `Secret`, or a text that says where it is (`Secret.of`); None where it is not given."""
    return converted(_secret_or_none, None, doc, kafka=kafka)


def allowed(field: attrs.Attribute[Any], value: Any) -> Any:
    """The value, if the option takes it. Raises ConfigError."""
    convert = field.converter
    if isinstance(convert, attrs.Converter):
        converted = convert.converter(value, field)  # type: ignore[attr-defined]  # its stub has no attributes
    else:
        converted = value if convert is None else convert(value)
    if field.validator is not None:
        field.validator(None, field, converted)
    return value


def unknown_option(key: str, known: set[str], *, listed: str = "") -> str:
    """What to tell somebody who wrote `key`, when only `known` is allowed: the one that was meant, or all that there
    are; or, where they are many, what lists them (`listed`, the end of a sentence)."""
    near = difflib.get_close_matches(key, known, n=1)
    hints = [f"did you mean {near[0]!r}?"] if near else []
    if listed:
        hints.append(listed)
    elif not near:
        hints.append(f"allowed are {', '.join(sorted(known))}")
    return f"no such option; {' '.join(hints)}"


IN_THE_REFERENCE = "`sarameya config docs` lists the options that there are"
"""Of those of `Config`, which are too many for a line."""
