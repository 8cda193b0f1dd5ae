"""Rules of the repository: pinned dependencies, documented facts, and texts that no committed file may contain."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sarameya import Config, __version__
from sarameya.service.app.app_file import load_app
from sarameya_handlers import SparkSink
from tests.distributions import installed_tree
from tests.docs.pages import PAGES, blocks

ROOT = Path(__file__).parents[1]
README = PAGES["README"]

pytest_plugins = ["pytester"]


def test_changelog_has_the_version() -> None:
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]

    assert [str(pin) for pin in pins if pin.url or [s.operator for s in pin.specifier] != ["=="]] == []
    assert installed_tree("sarameya", {"dev"}) - {canonicalize_name(pin.name) for pin in pins} == {"sarameya"}


@pytest.mark.parametrize("module", ["sarameya_main", "sarameya_pytest"])
def test_module_copied_by_the_installation_equals_the_source(module: str) -> None:
    """An editable installation points to the packages, but has copies of single modules."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    is_same = Path(spec.origin).read_bytes() == (ROOT / "runtime" / f"{module}.py").read_bytes()
    assert is_same, f"{spec.origin} differs from runtime/{module}.py; run: make .venv/test.stamp"


def test_subjects_of_the_last_commits_are_short() -> None:
    """The last 50 commits count, since older ones cannot be changed any more. A shallow clone has fewer."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    log = subprocess.run(
        ["git", "log", "--no-merges", "--max-count=50", "--format=%h %s"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    subjects = [line.partition(" ") for line in log.stdout.splitlines()]
    assert {commit: subject for commit, _, subject in subjects if len(subject) > 72} == {}


def test_no_committed_file_names_a_registry() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    this = Path(__file__).relative_to(ROOT)
    registries = r"pypi\.org|pythonhosted\.org|repo1?\.maven|maven\.apache\.org/maven2|proxy\.golang\.org|index-url"
    found = subprocess.run(
        ["git", "grep", "--line-number", "-I", "--extended-regexp", registries, "--", ".", f":!{this}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, found.stdout + found.stderr  # 1: git grep has found nothing


@pytest.mark.parametrize("block", blocks(README, "python"))
def test_readme_python_block_is_python(block: str) -> None:
    ast.parse(block)


@pytest.mark.parametrize("block", blocks(README, "toml"))
def test_readme_toml_block_is_an_app_file(block: str, tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_text(block, encoding="utf-8")
    app = load_app(path)
    SparkSink.from_options(app.handler.options)


def test_readme_lists_options_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \|", README, re.MULTILINE)
    defaults = attrs.asdict(Config(), recurse=False)

    assert len(rows) >= 10
    assert {name: ast.literal_eval(default) for name, default in rows} == {name: defaults[name] for name, _ in rows}


@pytest.mark.parametrize(("ci", "outcome"), [("true", "failed"), ("", "skipped")])
@pytest.mark.parametrize("where", ["test", "module"])
def test_skipped_integration_test_fails_in_ci_only(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str, where: str
) -> None:
    monkeypatch.setenv("CI", ci)
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers = integration\naddopts = -p no:cacheprovider")
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    skip = {"test": "def test_it(): pytest.skip('tired')", "module": "pytest.skip('tired', allow_module_level=True)"}
    tests = pytester.mkdir("integration") / "test_skipping.py"
    tests.write_text(f"import pytest\npytestmark = pytest.mark.integration\n{skip[where]}\n", encoding="utf-8")

    result = pytester.runpytest_subprocess()

    outcomes = result.parseoutcomes()
    expected = "errors" if outcome == "failed" and where == "module" else outcome
    assert outcomes == {expected: 1}
    if ci:
        result.stdout.fnmatch_lines(["*may not be skipped where CI=true*tired*"])


def test_run_ended_by_sigterm_finalises_its_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\naddopts = -p no:cacheprovider")
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        import os, signal, pathlib, pytest

        @pytest.fixture(scope="session")
        def broker():
            yield
            pathlib.Path("ended").touch()

        def test_that_is_terminated(broker):
            os.kill(os.getpid(), signal.SIGTERM)

        def test_that_does_not_run(broker):
            pathlib.Path("ran").touch()
        """
    )

    result = pytester.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert Path("ended").exists()
    assert not Path("ran").exists()


def test_public_class_names_exist_once() -> None:
    """Only `sarameya.asyncio` has the names of trio's classes again."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in ("runtime", "handlers"):
        for path in (ROOT / package).rglob("*.py"):
            names = [node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
            for name in names:
                if not name.startswith("_") and "asyncio" not in path.parts:
                    found[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_pure_modules_import_no_concurrency() -> None:
    """A module that calls itself "Pure." imports no event loop, no sockets and no threads."""
    forbidden = {"trio", "socket", "asyncio", "threading"}
    found: dict[str, set[str]] = {}
    for package in ("runtime", "handlers"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            if re.search(r"\bPure[.:;]", ast.get_docstring(tree) or ""):
                nodes = list(ast.walk(tree))
                names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
                names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
                found[str(path.relative_to(ROOT))] = {name.partition(".")[0] for name in names} & forbidden
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}
