"""ARCHITECTURE.md is short, and names only modules, layers, classes and methods that exist. Rules name their tests."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, blocks, inline

PAGE = PAGES["ARCHITECTURE"]
WHERE, LAYERS, *DRAWINGS = blocks(PAGE, "")
PACKAGES = [ROOT / "runtime", ROOT / "handlers"]
MODULES = [path for package in PACKAGES for path in package.rglob("*.py")]
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
DEFINED = [owner for owner in ast.walk(ast.parse(SOURCE)) if isinstance(owner, ast.ClassDef)]
CLASSES = {owner.name for owner in DEFINED}
METHODS = {
    (owner.name, one.name)
    for owner in DEFINED
    for one in owner.body
    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
}

LIMIT = 20_000
"""Size limit in bytes. New developers read the whole page; rules belong in their modules."""


def test_page_is_short() -> None:
    assert len(PAGE.encode()) <= LIMIT


def test_modules_exist_at_their_paths() -> None:
    folders: dict[int, Path] = {}  # by indentation
    count = 0
    for line in WHERE.splitlines():
        indent = len(line) - len(line.lstrip())
        folders = {depth: folder for depth, folder in folders.items() if depth < indent or not indent}
        folder = folders[max(folders)] if indent else ROOT
        if found := re.match(r" *([\w/]+/)[ ,]", line):
            folders[indent] = folder / found[1]
            assert folders[indent].is_dir(), folders[indent]
            folder = folder if indent else folders[indent].parent
        # A name of several words is a module, and so is a name in front of its description.
        names = set(re.findall(r"(?<![\w`./])[a-z]+(?:_[a-z]+)+(?![\w./`])", line))
        if found := re.match(r" {4,8}([a-z_]+/?(?:, [a-z_]+/?)*)(?:  |$)", line):
            names |= {name.removesuffix("/") for name in found[1].split(", ")}
        for name in names:
            below = {path.stem for path in folder.rglob("*.py")} | {
                path.name for path in folder.rglob("*") if path.is_dir()
            }
            assert name in below, f"{name} in {folder}"
            count += 1
    assert count > 40


def test_layers_equal_the_import_rules() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    checked = [{*layer.split(" | ")} for layer in layers]

    def depth(name: str) -> int:
        [found] = [number for number, layer in enumerate(checked) if name in layer]
        return found

    for chain in re.findall(r"service ─► (?:telemetry|group)[^;\n]*", LAYERS):
        steps = [step.strip().split(" | ") for step in chain.split("─►") if step.strip() != "…"]
        depths = [{depth(name) for name in step} for step in steps]
        assert all(len(step) == 1 for step in depths), chain
        assert [min(step) for step in depths] == sorted(min(step) for step in depths), chain
    [shared] = re.findall(r"protocol\.\{([\w,]+)\}", LAYERS)
    for name in shared.split(","):
        place = ROOT / "runtime" / "sarameya" / "protocol" / name
        assert place.is_dir() or place.with_suffix(".py").exists(), name


def test_names_in_drawings_exist() -> None:
    count = 0
    for drawing in DRAWINGS:
        for path in re.findall(r"[\w/]+\.py\b", drawing):
            assert any(module.as_posix().endswith(f"/{path}") for module in MODULES), path
        for owner, name in re.findall(r"\b([A-Z]\w+)\.(\w+)", drawing):
            assert (owner, name) in METHODS, f"{owner}.{name}"
            count += 1
        for name in re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", drawing):
            assert name in CLASSES, name
    assert count > 6


def test_names_in_sentences_and_tables_exist() -> None:
    """Before this test existed, the table of owners named three deleted classes. A word in a comment is no class."""
    checked = 0
    for name in inline(PAGE):
        if re.fullmatch(r"(?:[A-Z][a-z]+)+", name) or re.fullmatch(r"[A-Z][A-Za-z]+\.[A-Z]+", name):
            owner, _, member = name.partition(".")
            assert owner in CLASSES, name
            assert re.search(rf"\b{member}\b", SOURCE), name
        elif re.fullmatch(r"[\w./]+\.py|[a-z_/]+/", name) and "<" not in name:
            base = ROOT if name.startswith("tests/") else None
            found = [path for root in PACKAGES for path in root.glob(f"**/{name.rstrip('/')}")]
            assert (base and (base / name).exists()) or found, name
        else:
            continue
        checked += 1
    assert checked > 60


def test_tests_named_in_docstrings_exist() -> None:
    """A rule in a module's docstring names its test."""
    named = 0
    for module in MODULES:
        text = module.read_text(encoding="utf-8")
        for file, test in re.findall(r"\btests/([\w/]+\.py)(?:::(test_\w+))?", text):
            path = ROOT / "tests" / file
            assert path.exists(), f"{module}: tests/{file}"
            assert not test or re.search(rf"\bdef {test}\b", path.read_text(encoding="utf-8")), f"{module}: {test}"
            named += bool(test)
    assert named > 30
