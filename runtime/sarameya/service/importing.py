"""What an app file names of the user's own code: `package.module:name`."""

from __future__ import annotations

import importlib
from typing import Any


class NotImportedError(Exception):
    """It cannot be imported, or is not there; says why."""


def imported(name: str, what: str) -> Any:
    """What `package.module:name` names. Raises NotImportedError, also for a name that is no such one; `what` it is to
    be is said then."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise NotImportedError(f"must be 'package.module:{what}'")
    return imported_from(module, attribute)


def imported_from(module: str, attribute: str) -> Any:
    """As `imported`."""
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
