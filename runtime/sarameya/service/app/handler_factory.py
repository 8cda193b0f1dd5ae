"""Builds a handler from its name and options.

The name is an entry point of the group `sarameya.handlers`, or `package.module:Class`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sarameya.errors import ConfigError, HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.handling.message_options import MessageOptions
from sarameya.option_kinds import unknown_option
from sarameya.service.app.imports import NotImportedError, import_attribute, import_name
from sarameya.service.app.message_options import MESSAGE_OPTIONS, set_options, shown

ENTRY_POINT_GROUP = "sarameya.handlers"


def installed_handlers() -> list[str]:
    """Return the short names of the installed handlers."""
    return sorted(entry_points(group=ENTRY_POINT_GROUP).names)


def build_handler(name: str, options: Mapping[str, Any]) -> ConsumerGroupHandler:
    """Return a new handler of the class called `name`.

    A class with `from_options` is built by `from_options(options)`, any other by `Class(**options)`. Options of a
    MessageHandler that are no arguments of the class become attributes of the object.

    Raises:
        HandlerError: The class cannot be found or imported, or is no handler.
        ConfigError: An option is wrong.
    """
    kind = handler_class(name)
    if hasattr(kind, "from_options"):
        handler = kind.from_options(options)
    else:
        known = _message_options(kind)
        arguments = {key: value for key, value in options.items() if key not in known}
        _check_arguments(name, kind, arguments, known)
        handler = kind(**arguments)
        if isinstance(handler, MessageOptions):
            set_options(handler, {key: value for key, value in options.items() if key in known})
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
        asyncio = "those of sarameya.asyncio need a program of your own"
        raise HandlerError(f"handler {name!r} is no subclass of sarameya.ConsumerGroupHandler; {asyncio}")
    return kind


def default_options(name: str) -> dict[str, Any]:
    """Return the options that the handler called `name` uses if they are not given.

    A class with `from_options` returns them by `option_defaults()`, if it has that method. For any other class they are
    the defaults of the constructor's arguments, and a MessageHandler's options.

    Raises:
        HandlerError: The class cannot be used, or its `option_defaults()` fails.
    """
    kind = handler_class(name)
    if hasattr(kind, "from_options"):
        return _declared_defaults(name, kind) if hasattr(kind, "option_defaults") else {}
    parameters = inspect.signature(kind).parameters.values()
    arguments = {p.name: p.default for p in parameters if p.default is not p.empty}
    return arguments | {option: shown(getattr(kind, option)) for option in _message_options(kind)}


def _declared_defaults(name: str, kind: Any) -> dict[str, Any]:
    remedy = "it must be a class or static method without arguments that returns a dictionary from options to values"
    try:
        defaults = kind.option_defaults()
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise HandlerError(f"handler {name!r}: option_defaults() fails with {why}; {remedy}") from error
    if not isinstance(defaults, Mapping) or not all(isinstance(option, str) for option in defaults):
        raise HandlerError(f"handler {name!r}: option_defaults() returns {defaults!r}; {remedy}")
    return dict(defaults)


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
            f"no handler is called {name!r}; {hint}the installed handlers are "
            f"{', '.join(map(repr, installed_handlers()))}, and 'package.module:Class' names any other class"
        )
    return next(iter(found))


def _message_options(kind: type[ConsumerGroupHandler]) -> tuple[str, ...]:
    """Return the names of options that become attributes of the handler: an argument of its own has precedence."""
    if not issubclass(kind, MessageOptions):
        return ()
    arguments = inspect.signature(kind).parameters
    return tuple(option for option in MESSAGE_OPTIONS if option not in arguments and hasattr(kind, option))


def _check_arguments(
    name: str, kind: type[ConsumerGroupHandler], options: Mapping[str, Any], others: Sequence[str]
) -> None:
    """Raise a clear error for an option that does not fit the class's arguments, before Python raises a TypeError."""
    parameters = inspect.signature(kind).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)} | {*others}
        for key, value in options.items():
            if key not in known:
                raise ConfigError(key, value, unknown_option(key, known) if known else "the handler takes no options")
    for p in parameters:
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in options:
            raise HandlerError(f"handler {name!r}: option {p.name!r} is missing")
