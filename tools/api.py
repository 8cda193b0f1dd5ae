"""Lists the public API as text: every exported name, its members and their signatures.

`make api` (that is, `python -m tools.api`) regenerates `tests/api.txt`; a test fails if it differs from the source. The
source is parsed, not imported, so that the text is the same for every version of Python.

A class is listed with its bases and the members inherited from non-public bases. A field's default is shown if it is a
name or a literal, otherwise as `...`: for the options of `Config`, docs/configuration.md has the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
SNAPSHOT = ROOT / "tests" / "api.txt"
SOURCES = [ROOT / "runtime", ROOT / "handlers"]
MODULES = (
    "sarameya",
    "sarameya.asyncio",
    "sarameya.observe",
    "sarameya.testing",
    "sarameya.embedded",
    "sarameya.service",
)
MODULES += tuple(f"sarameya.telemetry.{name}" for name in ("prometheus", "otel_metrics", "otel_tracing", "snapshot"))
MODULES += ("sarameya_handlers", "sarameya_handlers.spark", "sarameya_handlers.audit", "sarameya_pytest")
COMMAND = "make api"

_OMITTED = {"__repr__", "__str__", "__hash__", "__eq__", "__slots__", "__all__", "__post_init__", "__attrs_post_init__"}


def api(sources: list[Path] = SOURCES, modules: tuple[str, ...] = MODULES) -> str:
    """Return a line for each public name and each member. A name that is exported twice is described once."""
    loader = griffe.GriffeLoader(search_paths=sources)
    for package in dict.fromkeys(module.partition(".")[0] for module in modules):
        loader.load(package)
    loader.resolve_aliases(implicit=True, external=False)
    described: dict[str, str] = {}
    lines: list[str] = []
    public = {path for module in modules for path, _ in _exported(loader.modules_collection, module)}
    for module in modules:
        for path, one in sorted(_exported(loader.modules_collection, module), key=lambda pair: pair[1].name):
            name = f"{module}.{one.name}"
            if path in described:
                lines.append(f"{name} = {described[path]}")
            else:
                described[path] = name
                lines += _described(name, one.final_target if isinstance(one, griffe.Alias) else one, public)
    return "\n".join(lines) + "\n"


def _exported(modules: griffe.ModulesCollection, name: str) -> Iterator[tuple[str, griffe.Object | griffe.Alias]]:
    """Yield the path and the definition of each name in `__all__`."""
    module = modules[name]
    for exported in module.exports or ():
        one = module[str(exported)]
        yield (one.final_target.path if isinstance(one, griffe.Alias) else one.path), one


def _described(name: str, one: griffe.Object, public: set[str]) -> Iterator[str]:
    if not isinstance(one, griffe.Class):
        yield _line(name, one)
        return
    bases = ", ".join(str(base) for base in one.bases)
    yield f"class {name}({bases})" if bases else f"class {name}"
    for member_name, member in _members(one, public).items():
        yield f"    {_line(member_name, member)}"


def _members(one: griffe.Class, public: set[str]) -> Mapping[str, griffe.Object]:
    own = dict(one.members)
    inherited = {
        name: alias.final_target
        for name, alias in one.inherited_members.items()
        if isinstance(alias, griffe.Alias) and _owner(alias) not in public
    }
    return {
        name: member
        for name, member in sorted((inherited | own).items(), key=_fields_first)
        if isinstance(member, griffe.Object) and name not in _OMITTED and (name.startswith("__") or name[0] != "_")
    }


def _fields_first(member: tuple[str, object]) -> str:
    """Return the sort key: fields come first, in the order of the constructor's arguments, then the others by name."""
    name, one = member
    is_field = isinstance(one, griffe.Attribute) and one.annotation is not None and "property" not in one.labels
    return "" if is_field else name


def _owner(alias: griffe.Alias) -> str:
    return alias.final_target.path.rpartition(".")[0]


def _line(name: str, one: griffe.Object) -> str:
    if isinstance(one, griffe.Function):
        kind = "".join(f"{label} " for label in ("async", "classmethod", "staticmethod") if label in one.labels)
        return f"{kind}def {one.signature(name=name)}"
    if isinstance(one, griffe.Attribute):
        kind = "property " if "property" in one.labels else ""
        is_shown = isinstance(one.value, str) or (
            not isinstance(one.value, griffe.ExprCall) and one.parent and one.parent.is_module
        )
        value = "" if one.value is None or kind else f" = {one.value if is_shown else '...'}"
        return f"{kind}{name}: {one.annotation}{value}" if one.annotation else f"{kind}{name}{value}"
    return f"{one.kind.value} {name}"


if __name__ == "__main__":
    SNAPSHOT.write_text(api(), encoding="utf-8")
