"""Conversion of JSON, text and plain objects to a type of the user: a Struct, a dataclass, an attrs class, a TypedDict.

msgspec converts, and is strict: `"5"` is no int. pydantic converts to its own models, as they are configured. A type
that cannot be converted to is refused before the first message. Otherwise every message would seem to be at fault.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, ForwardRef, Protocol, TypeVar, Union, get_args, get_origin

import msgspec

from sarameya.errors import ConfigError
from sarameya.formats.errors import UndecodableError


class ValueType(Protocol):
    """Conversion to one type. All methods raise UndecodableError for a value of another type."""

    accepts_none: bool
    """True if None is of the type: a message without a value, or without a key, is accepted."""
    accepts_text: bool
    """False if no text is of the type."""

    def from_json(self, data: bytes) -> Any:
        """Convert a JSON document."""

    def from_object(self, value: object) -> Any:
        """Convert text, or objects that were decoded from another format."""


def value_type(option: str, kind: Any) -> ValueType:
    """Return the conversion to a type.

    Args:
        option: Name of the option, for errors.
        kind: The type.

    Raises:
        ConfigError: It is no type, or values cannot be converted to it.
    """
    if isinstance(kind, str | ForwardRef):
        raise ConfigError(option, kind, "must be a type, not the name of one")
    if isinstance(kind, TypeVar):
        raise ConfigError(option, kind, f"must be a type, not a type variable: set {option}")
    return _PydanticType(option, kind) if _has_model(kind) else _MsgspecType(option, kind)


def without_none(kind: Any) -> Any:
    """Return `T` for `T | None`; any other type as it is."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [part for part in get_args(kind) if part is not types.NoneType]
        if len(rest) == 1:
            return rest[0]
    return kind


class _MsgspecType:
    def __init__(self, option: str, kind: Any) -> None:
        _check_convertible(option, kind)
        self._kind = kind
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self.accepts_none = _accepts_none(kind)
        self.accepts_text = _accepts_text(kind)

    def from_json(self, data: bytes) -> Any:
        return _converted(self._decoder.decode, data)

    def from_object(self, value: object) -> Any:
        return _converted(lambda given: msgspec.convert(given, self._kind), value)


class _PydanticType:
    accepts_text = True  # as far as is known: pydantic may convert text to any type

    def __init__(self, option: str, kind: Any) -> None:
        # The user's model has imported it already.
        from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

        try:
            self._adapter = TypeAdapter(kind)
            self.accepts_none = self._accepts_none()
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            text = str(error).partition("\n")[0]
            raise ConfigError(option, kind, f"must be a type that pydantic can validate: {text}") from error

    def from_json(self, data: bytes) -> Any:
        return self._validated(self._adapter.validate_json, data)

    def from_object(self, value: object) -> Any:
        return self._validated(self._adapter.validate_python, value)

    def _accepts_none(self) -> bool:
        from pydantic import PydanticUserError

        try:
            self._adapter.validate_python(None)
        except PydanticUserError:
            raise
        except Exception:  # noqa: BLE001 - the checks of a model may raise anything
            return False
        return True

    def _validated(self, validate: Callable[[Any], Any], given: Any) -> Any:
        from pydantic import ValidationError

        try:
            return validate(given)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found[0]["loc"])
            more = f" (and {len(found) - 1} more)" if found[1:] else ""
            raise UndecodableError(f"{found[0]['msg']}{more}", path and f"${path}") from None
        except Exception as error:  # noqa: BLE001 - the checks of a model may raise anything
            raise UndecodableError(f"{type(error).__name__}: {error}") from None


def _has_model(kind: Any) -> bool:
    """Return whether a type is a pydantic model, or is made of one: `list[Order]`, `Order | None`."""
    return hasattr(kind, "__pydantic_validator__") or any(map(_has_model, get_args(kind)))


def _accepts_none(kind: Any) -> bool:
    try:
        msgspec.convert(None, kind)
    except msgspec.ValidationError:
        return False
    return True


def _accepts_text(kind: Any) -> bool:
    try:
        msgspec.convert("", kind)
    except msgspec.ValidationError as error:
        return not str(error).endswith("got `str`")  # otherwise it is about this text: an enum, a length
    except Exception:  # noqa: BLE001 - the checks of a type may raise anything
        return True
    return True


def _converted(convert: Callable[[Any], Any], given: Any) -> Any:
    try:
        return convert(given)
    except msgspec.MsgspecError as error:
        problem, at, path = str(error).rpartition(" - at `")
        raise (UndecodableError(problem, path.rstrip("`")) if at else UndecodableError(path)) from None
    except Exception as error:  # noqa: BLE001 - the checks of a type may raise anything
        raise UndecodableError(f"{type(error).__name__}: {error}") from None


def _check_convertible(option: str, kind: Any) -> None:
    """Check that msgspec knows the type, and all types in it.

    Raises:
        ConfigError: It does not.
    """
    from msgspec import inspect

    try:
        parts = list(_parts(inspect.type_info(kind), set()))
    except (TypeError, NameError, ValueError) as error:
        raise ConfigError(option, kind, f"must be a type that msgspec can decode: {error}") from error
    for part in parts:
        if isinstance(part, inspect.CustomType):
            raise ConfigError(
                option, kind, f"must be a type that msgspec can decode, and {part.cls} is none{_hint(part)}"
            )


def _hint(part: Any) -> str:
    return ": make all of it pydantic models" if _has_model(part.cls) else ""


def _parts(info: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the description of a type, and of all types in it. A type may contain itself."""
    if isinstance(info, tuple | list):
        for one in info:
            yield from _parts(one, seen)
    elif isinstance(info, msgspec.Struct) and id(info) not in seen:
        seen.add(id(info))
        yield info
        for name in info.__struct_fields__:
            yield from _parts(getattr(info, name), seen)
