"""From a handler's name and options to a handler: by entry point of `sarameya.handlers`, or `package.module:Class`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sarameya.errors import ConfigError, HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.option_kinds import unknown_option
from sarameya.service.importing import NotImportedError, imported, imported_from

ENTRY_POINT_GROUP = "sarameya.handlers"


def available() -> list[str]:
    """The handlers installed under a short name."""
    return sorted(entry_points(group=ENTRY_POINT_GROUP).names)


def build_handler(name: str, options: Mapping[str, Any]) -> ConsumerGroupHandler:
    """The handler called `name`, built by `from_options(options)` where its class has it, else `Class(**options)`.

    Raises HandlerError if it cannot be found or imported or is no handler, ConfigError for a bad option.
    """
    kind = handler_class(name)
    if hasattr(kind, "from_options"):
        handler = kind.from_options(options)
    else:
        _check_arguments(name, kind, options)
        handler = kind(**options)
    if not isinstance(handler, ConsumerGroupHandler):
        raise HandlerError(
            f"handler {name!r}: from_options returned a {type(handler).__name__}, not a ConsumerGroupHandler"
        )
    return handler


def handler_class(name: str) -> Any:
    """The class of the handler called `name`. Raises HandlerError as `build_handler` does."""
    kind = _find(name)
    if not (isinstance(kind, type) and issubclass(kind, ConsumerGroupHandler)):
        raise HandlerError(f"handler {name!r} is no subclass of sarameya.ConsumerGroupHandler")
    return kind


def default_options(name: str) -> dict[str, Any]:
    """What the handler called `name` takes for options that are not given: as its class's `option_defaults()` says,
    or, of one that is built by its arguments, their own defaults. Raises HandlerError as `build_handler` does, and
    where that method cannot be used."""
    kind = handler_class(name)
    if hasattr(kind, "from_options"):
        return _stated(name, kind) if hasattr(kind, "option_defaults") else {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _stated(name: str, kind: Any) -> dict[str, Any]:
    remedy = "it must be a class method or a static one that takes nothing and returns a dictionary, values by option"
    try:
        stated = kind.option_defaults()
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise HandlerError(f"handler {name!r}: option_defaults() fails with {why}; {remedy}") from error
    if not isinstance(stated, Mapping) or not all(isinstance(option, str) for option in stated):
        raise HandlerError(f"handler {name!r}: option_defaults() returns {stated!r}; {remedy}")
    return dict(stated)


def _find(name: str) -> Any:
    try:
        if ":" in name:
            return imported(name, "Class")
        entry = _installed(name)
        return imported_from(entry.module, entry.attr)
    except NotImportedError as problem:
        raise HandlerError(f"handler {name!r}: {problem}") from problem.__cause__


def _installed(name: str) -> EntryPoint:
    found = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if not found:
        near = difflib.get_close_matches(name, available(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise HandlerError(
            f"no handler is called {name!r}; {hint}"
            f"installed are {', '.join(map(repr, available()))}, and 'package.module:Class' names any other"
        )
    return next(iter(found))


def _check_arguments(name: str, kind: type[ConsumerGroupHandler], options: Mapping[str, Any]) -> None:
    """Name the option that does not fit the class's arguments, before Python raises a TypeError about it."""
    parameters = inspect.signature(kind).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        for key, value in options.items():
            if key not in known:
                raise ConfigError(key, value, unknown_option(key, known) if known else "the handler takes no options")
    for p in parameters:
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in options:
            raise HandlerError(f"handler {name!r}: option {p.name!r} is missing")
