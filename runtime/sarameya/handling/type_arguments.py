"""Types that a subclass passes to a generic base class: `class Orders(MessageHandler[Order])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin


def type_arguments(kind: type, base: type, names: Sequence[str]) -> dict[str, Any]:
    """Return the types that a class passes to a generic base class, or to a generic subclass of it.

    Args:
        kind: The class.
        base: The generic base class.
        names: Attribute names of `base` for its types, in their order. A generic subclass has type variables there.

    Returns:
        The types by attribute name; those that the class does not pass are missing.

    Raises:
        TypeError: There are more types than names.
    """
    found: dict[str, Any] = {}
    for alias in vars(kind).get("__orig_bases__", ()):
        origin, given = get_origin(alias), get_args(alias)
        if origin is base:
            if len(given) > len(names):
                raise TypeError(f"{base.__name__} takes at most {len(names)} types, not {len(given)}")
            found.update(zip(names, given, strict=False))
        elif isinstance(origin, type) and issubclass(origin, base):
            variables = dict(zip(origin.__parameters__, given, strict=False))  # type: ignore[attr-defined]
            found.update((name, _substituted(getattr(origin, name), variables)) for name in names)
    return found


def _substituted(kind: Any, variables: Mapping[Any, Any]) -> Any:
    if isinstance(kind, TypeVar):
        return variables.get(kind, kind)
    own = getattr(kind, "__parameters__", ())
    if any(variable in variables for variable in own):
        return kind[tuple(variables.get(variable, variable) for variable in own)]
    return kind
