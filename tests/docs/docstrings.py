"""Examples in docstrings: indented paragraphs, which the reference shows as code (`docs/conf.py`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from textwrap import dedent
from typing import Any

from tools.api import MODULES

_PARAGRAPH = re.compile(r"(?:(?<=\n\n)|\A)(?:    .*\n|\n(?=    ))+", re.MULTILINE)


def paragraphs(docstring: str) -> list[str]:
    """Return the indented paragraphs of a docstring, dedented."""
    text = inspect.cleandoc(docstring) + "\n"
    return [dedent(found[0]).strip("\n") + "\n" for found in _PARAGRAPH.finditer(text)]


def documented() -> Iterator[tuple[str, Any]]:
    """Yield each object that the reference shows, once: modules, public names, and members of public classes."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = import_module(module_name)
        found = [(module_name, module)]
        for name in module.__all__:
            public = getattr(module, name)
            found.append((f"{module_name}.{name}", public))
            if inspect.isclass(public):
                classes = [base for base in public.__mro__ if base.__module__.partition(".")[0] in _PACKAGES]
                members = {member: value for base in reversed(classes) for member, value in vars(base).items()}
                found += [(f"{module_name}.{name}.{member}", value) for member, value in members.items()]
        for name, value in found:
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value


_PACKAGES = {module.partition(".")[0] for module in MODULES}


def examples() -> dict[str, list[str]]:
    """Return the examples in each docstring, by the name of the documented object."""
    found = {
        name: paragraphs(value.__doc__)
        for name, value in documented()
        if not name.rpartition(".")[2].startswith("_") and isinstance(getattr(value, "__doc__", None), str)
    }
    return {name: texts for name, texts in found.items() if texts}


def is_python(text: str) -> bool:
    """Return whether an example is Python, not a TOML table of an app file."""
    return not text.startswith("[")
