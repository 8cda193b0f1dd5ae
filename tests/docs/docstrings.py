"""The examples in docstrings: indented paragraphs, which the reference shows as code (`docs/conf.py`)."""

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
    """The indented ones, as code."""
    text = inspect.cleandoc(docstring) + "\n"
    return [dedent(found[0]).strip("\n") + "\n" for found in _PARAGRAPH.finditer(text)]


def documented() -> Iterator[tuple[str, Any]]:
    """Every public name, every member of a public class, and the modules, each once: what the reference shows."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = import_module(module_name)
        found = [(module_name, module)]
        for name in module.__all__:
            one = getattr(module, name)
            found.append((f"{module_name}.{name}", one))
            if inspect.isclass(one):
                owners = [owner for owner in one.__mro__ if owner.__module__.partition(".")[0] in _OURS]
                members = {member: value for owner in reversed(owners) for member, value in vars(owner).items()}
                found += [(f"{module_name}.{name}.{member}", value) for member, value in members.items()]
        for name, one in found:
            if id(one) not in seen:
                seen.add(id(one))
                yield name, one


_OURS = {module.partition(".")[0] for module in MODULES}


def examples() -> dict[str, list[str]]:
    """Return the examples, by the name of the documented object."""
    found = {
        name: paragraphs(one.__doc__)
        for name, one in documented()
        if not name.rpartition(".")[2].startswith("_") and isinstance(getattr(one, "__doc__", None), str)
    }
    return {name: texts for name, texts in found.items() if texts}


def is_python(text: str) -> bool:
    """Python, unless it is a table of an app file."""
    return not text.startswith("[")
