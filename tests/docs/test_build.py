"""Documentation built as by `make docs`: without warnings, with every public name, readable without internet."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tools.api import MODULES

ROOT = Path(__file__).parents[2]
STRICT = ["--builder", "html", "--conf-dir", "docs", "--nitpicky", "--fail-on-warning", "--keep-going", "--quiet"]
# Sphinx repeats the warnings only of pages that it reads again.
STRICT += ["--fresh-env", "--write-all"]

pytestmark = pytest.mark.integration


def build(root: Path, output: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", *STRICT, ".", str(output)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("pages")
    done = build(ROOT, output)
    assert (done.stderr, done.returncode) == ("", 0)
    return output


def entries(pages: Path) -> Iterator[str]:
    """Yield the names of all documented Python objects, from `objects.inv`. Its first four lines are text."""
    packed = (pages / "objects.inv").read_bytes().split(b"\n", 4)[4]
    for line in zlib.decompress(packed).decode().splitlines():
        name, kind, _ = line.split(" ", 2)
        if kind.startswith("py:"):
            yield name


def test_makefile_builds_with_the_same_options() -> None:
    assert f"sphinx-build {' '.join(STRICT)} . build/docs" in (ROOT / "Makefile").read_text()


def test_every_public_name_is_on_a_page(pages: Path) -> None:
    modules = [import_module(module) for module in MODULES]
    public = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    shown = set(entries(pages))
    # An object that is exported twice is documented under one of its names.
    shown_objects = {id(value) for name, value in public.items() if name in shown}
    assert {name for name, value in public.items() if name not in shown and id(value) not in shown_objects} == set()


def test_pages_load_nothing_from_other_sites(pages: Path) -> None:
    loads = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^"']*""", re.I)
    imports = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])(?:https?:)?//[^)"']*""", re.I)
    found = {
        match
        for file in pages.rglob("*")
        if file.suffix in (".html", ".css")
        for match in (loads if file.suffix == ".html" else imports).findall(file.read_text(encoding="utf-8"))
    }
    assert len(list(pages.rglob("*.html"))) > 30
    assert found == set()


UNDOCUMENTED = '''
def function():
    pass


class Class:
    """One."""

    def method(self):
        pass
'''


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a documentation of two pages, with the same settings."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "undocumented.py").write_text(UNDOCUMENTED)
    shutil.copytree(ROOT / "docs" / "_static", tmp_path / "docs" / "_static")
    (tmp_path / "docs" / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"))
    (tmp_path / "docs" / "index.md").write_text("# Index\n\n```{toctree}\n../README\n```\n")
    return tmp_path


def test_valid_links_do_not_fail_the_build(copy: Path) -> None:
    links = "[up](docs/index.md) [there](docs/index.md#index) [here](#read-me) [file](undocumented.py)"
    (copy / "README.md").write_text(f"# Read me\n\n{links}\n")
    done = build(copy, copy / "build")
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("page", "warning"),
    [
        ("[elsewhere](docs/nowhere.md)", "cross-reference target not found: 'docs/nowhere.md'"),
        ("[elsewhere](docs/index.md#nothing)", "'nothing'"),
        ("[elsewhere](#nothing)", "'nothing'"),
        ("[elsewhere](runtime/nowhere.py)", "'runtime/nowhere.py'"),
        ("```{eval-rst}\n.. autofunction:: undocumented.function\n```", "undocumented.function has no docstring"),
        ("```{eval-rst}\n.. autoclass:: undocumented.Class\n```", "undocumented.Class.method has no docstring"),
        ("```{eval-rst}\n.. autoclass:: undocumented.Gone\n```", "failed to import 'Gone'"),
        ("```{eval-rst}\n:py:class:`sarameya.Gone`\n```", "reference target not found: sarameya.Gone"),
    ],
)
def test_broken_link_or_missing_docstring_fails_the_build(copy: Path, page: str, warning: str) -> None:
    (copy / "README.md").write_text(f"# Read me\n\n{page}\n")
    done = build(copy, copy / "build")
    assert done.returncode != 0
    assert warning in done.stderr


def test_second_build_repeats_the_warnings(copy: Path) -> None:
    (copy / "README.md").write_text("# Read me\n\n[elsewhere](docs/nowhere.md)\n")
    first, second = build(copy, copy / "build"), build(copy, copy / "build")
    assert second.returncode == first.returncode != 0
    assert second.stderr == first.stderr != ""
