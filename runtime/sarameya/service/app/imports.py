"""Imports of the user's own code, which an app file names as `package.module:name`."""

from __future__ import annotations

import importlib
from typing import Any


class NotImportedError(Exception):
    """The name cannot be imported, or its module lacks it. The message says why."""


def import_name(name: str, what: str) -> Any:
    """Return the object that `package.module:name` names.

    Args:
        name: The name to import.
        what: The kind of object, for the message about a name of another form.

    Raises:
        NotImportedError: The name has another form, or cannot be imported.
    """
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise NotImportedError(f"must be 'package.module:{what}'")
    return import_attribute(module, attribute)


def import_attribute(module: str, attribute: str) -> Any:
    """Return an attribute of a module; dots lead further in.

    Raises:
        NotImportedError: The module cannot be imported, or has no such attribute.
    """
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise NotImportedError(f"cannot import {module!r}: {error}") from error
    except Exception as error:  # a module may raise anything while it is imported
        raise NotImportedError(f"cannot import {module!r}: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotImportedError(f"module {module!r} has no {attribute!r}") from None
    return found
