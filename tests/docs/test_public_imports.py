"""Pages and examples import only public names. These are in tests/api.txt, which shows every change of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.docs.pages import PAGES, ROOT, blocks
from tools.api import MODULES

PROGRAMS = {
    **{name: blocks(text, "python") for name, text in PAGES.items() if blocks(text, "python")},
    **{
        path.relative_to(ROOT).as_posix(): [path.read_text(encoding="utf-8")]
        for path in sorted((ROOT / "examples").rglob("*.py"))
    },
}


def imported(program: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of each import from Sarameya's packages; the name of a whole module is ""."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        else:
            continue
        yield from (
            (module, name) for module, name in names if module.partition("_")[0].partition(".")[0] == "sarameya"
        )


def is_public(module: str, name: str) -> bool:
    return module in MODULES and (not name or name in import_module(module).__all__)


@pytest.mark.parametrize("name", PROGRAMS)
def test_imported_names_are_public(name: str) -> None:
    found = {one for program in PROGRAMS[name] for one in imported(program)}
    assert {one for one in found if not is_public(*one)} == set()


def test_imports_are_found() -> None:
    found = [one for programs in PROGRAMS.values() for program in programs for one in imported(program)]
    assert len(found) > 100
    assert {"sarameya", "sarameya.telemetry.otel_tracing", "sarameya_handlers.audit"} <= {module for module, _ in found}


@pytest.mark.parametrize(
    "program",
    [
        "from sarameya.service import signals",
        "from sarameya.service.output.error_report import leaves",
        "import sarameya.group.membership.member",
        "def f():\n    from sarameya_handlers.landing.links import ChainKey",
    ],
)
def test_private_import_is_detected(program: str) -> None:
    assert not all(is_public(*one) for one in imported(program))
