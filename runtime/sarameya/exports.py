"""Public names of a package, imported when they are first used (PEP 562).

A program that uses a few of a package's names imports only the modules of these. A package says its names three times:
in `__all__`; under `if TYPE_CHECKING`, for type checkers and editors; and in the table for `lazy_names`. Test:
`tests/test_exports.py::test_lazy_names_match_the_imports_for_type_checkers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

TYPE_CHECKING = False  # importing it from `typing` would take time
if TYPE_CHECKING:
    from typing import Any


def lazy_names(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    Args:
        package: Name of the package.
        names: Public names by module, separated by spaces. A module of the package starts with a dot.
    """
    homes = {name: module for module, listed in names.items() for name in listed.split()}
    # After `import package`, type checkers know these modules as its attributes.
    modules = {module.split(".")[1] for module in names if module.startswith(".")}

    def get(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name], package), name)
            setattr(sys.modules[package], name, value)  # from now on, the name is found without this function
            return value
        if name in modules:
            return import_module(f".{name}", package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, list_names
