"""Public types can be imported: all types that public methods accept or return are exported."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import attrs
import pytest

import sarameya
import sarameya.asyncio
import sarameya.embedded
import sarameya.service
import sarameya.testing
import sarameya_handlers
import sarameya_handlers.spark
from sarameya import Consumer, ConsumerGroup, DescribedGroup, GroupAdmin, Listing, Producer, Session
from sarameya.embedded import EmbeddedCluster, GroupDescription
from sarameya.protocol.assignors import ASSIGNORS


def parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all types that it consists of."""
    yield hint
    for part in get_args(hint):
        for one in part if isinstance(part, (list, tuple)) else [part]:
            yield from parts(one)


def used(owner: type) -> set[type]:
    """Return the project's classes in the signatures of a class's public methods and properties, and in its fields."""
    members = [m for name, m in inspect.getmembers(owner) if not name.startswith("_")]
    functions = [m.fget if isinstance(m, property) else m for m in members]
    hints = [get_type_hints(f) for f in functions if inspect.isfunction(f)]
    if attrs.has(owner):
        hints.append(get_type_hints(owner))
    found = [part for hint in hints for one in hint.values() for part in parts(one)]
    return {one for one in found if isinstance(one, type) and one.__module__.startswith("sarameya.")}


def names(module: ModuleType) -> set[Any]:
    return {getattr(module, name) for name in module.__all__}


@pytest.mark.parametrize(
    ("owner", "modules"),
    [
        (ConsumerGroup, [sarameya]),
        (Consumer, [sarameya]),
        (Producer, [sarameya]),
        (Session, [sarameya]),
        (GroupAdmin, [sarameya]),
        (DescribedGroup, [sarameya]),
        (Listing, [sarameya]),
        *((getattr(sarameya.asyncio, name), [sarameya, sarameya.asyncio]) for name in sarameya.asyncio.__all__),
        (EmbeddedCluster, [sarameya, sarameya.embedded, sarameya.testing]),
        (GroupDescription, [sarameya, sarameya.embedded]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "+".join(module.__name__ for module in value),
)
def test_types_of_public_methods_are_exported(owner: type, modules: list[ModuleType]) -> None:
    own = {one for one in used(owner) if not one.__name__.startswith("_")}
    assert own
    assert own - set.union(*map(names, modules)) == set()


def test_assignors_of_the_config_can_be_imported() -> None:
    assert names(sarameya).issuperset(ASSIGNORS.values())


@pytest.mark.parametrize(
    "module",
    ["sarameya", "sarameya.asyncio", "sarameya.embedded", "sarameya.testing", "sarameya_handlers", "sarameya_main"],
)
def test_module_is_imported_without_warnings(module: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", f"import {module}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", [sarameya, sarameya.service, sarameya_handlers, sarameya_handlers.spark])
def test_lazy_names_match_the_imports_for_type_checkers(module: ModuleType) -> None:
    assert module.__file__ is not None
    imports, table = [], None
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            imports = [inner for inner in node.body if isinstance(inner, ast.ImportFrom)]
            (assignment,) = node.orelse
            assert isinstance(assignment, ast.Assign)
            assert isinstance(assignment.value, ast.Call)
            table = ast.literal_eval(assignment.value.args[1])
    assert table is not None
    homes = {name: resolve_name(home, module.__name__) for home, listed in table.items() for name in listed.split()}
    assert homes == {alias.name: one.module for one in imports for alias in one.names}
    assert homes.keys() == set(module.__all__) - {"__version__"}


@pytest.mark.parametrize("module", [sarameya, sarameya.service, sarameya_handlers, sarameya_handlers.spark])
def test_lazy_names_are_listed_and_others_refused(module: ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        getattr(module, "nonsense")  # noqa: B009  the type checker would object to the attribute


def test_modules_of_a_lazy_package_are_attributes() -> None:
    """Type checkers assume these attributes after `import sarameya`, since names are imported from the modules."""
    code = "import sarameya; assert sarameya.errors.ConfigError is sarameya.ConfigError"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
