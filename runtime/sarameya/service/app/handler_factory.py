"""Builds a handler from its name and options: by an entry point of `sarameya.handlers`, or `package.module:Class`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sarameya.errors import ConfigError, HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.option_kinds import unknown_option
from sarameya.service.app.imports import NotImportedError, import_attribute, import_name

ENTRY_POINT_GROUP = "sarameya.handlers"


def installed_handlers() -> list[str]:
    """Return the handlers installed under a short name."""
    return sorted(entry_points(group=ENTRY_POINT_GROUP).names)


def build_handler(name: str, options: Mapping[str, Any]) -> ConsumerGroupHandler:
    """Return a new handler of the class called `name`.

    It is built by `from_options(options)` if its class has that, else by `Class(**options)`.

    Raises:
        HandlerError: The class cannot be found or imported, or is no handler.
        ConfigError: An option is wrong.
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
    """Return the class of the handler called `name`.

    Raises:
        HandlerError: The class cannot be found or imported, or is no handler.
    """
    kind = _find(name)
    if not (isinstance(kind, type) and issubclass(kind, ConsumerGroupHandler)):
        raise HandlerError(f"handler {name!r} is no subclass of sarameya.ConsumerGroupHandler")
    return kind


def default_options(name: str) -> dict[str, Any]:
    """Return the options that the handler called `name` uses if they are not given.

    The class says them by `option_defaults()`. Without `from_options` they are the defaults of its arguments.

    Raises:
        HandlerError: The class cannot be used, or its `option_defaults()` fails.
    """
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
            return import_name(name, "Class")
        entry = _installed(name)
        return import_attribute(entry.module, entry.attr)
    except NotImportedError as problem:
        raise HandlerError(f"handler {name!r}: {problem}") from problem.__cause__


def _installed(name: str) -> EntryPoint:
    found = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if not found:
        near = difflib.get_close_matches(name, installed_handlers(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise HandlerError(
            f"no handler is called {name!r}; {hint}"
            f"installed are {', '.join(map(repr, installed_handlers()))}, and 'package.module:Class' names any other"
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
