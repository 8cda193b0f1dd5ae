"""Imports of the user's own code, which an app file names as `package.module:name`."""

from __future__ import annotations

import importlib
from typing import Any


class NotImportedError(Exception):
    """A name cannot be imported, or its module does not have it. The message has the reason."""


def import_name(name: str, kind: str) -> Any:
    """Return the object that `package.module:name` names.

    Args:
        name: The name to import.
        kind: The kind of object, for the error message about a name without the form `package.module:name`.

    Raises:
        NotImportedError: The name has another form, or cannot be imported.
    """
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise NotImportedError(f"must be 'package.module:{kind}'")
    return import_attribute(module, attribute)


def import_attribute(module: str, attribute: str) -> Any:
    """Return an attribute of a module. A dotted name is an attribute of an attribute.

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
