"""Public names are those in tests/api.txt. The text changes with each change that users could notice."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tools.api import COMMAND, SNAPSHOT, api

SMALL = '''
"""A package."""
from __future__ import annotations
import attrs

__all__ = ["Thing", "make"]


class _Base:
    def inherited(self) -> int: ...


@attrs.frozen
class Thing(_Base):
    """One."""

    size: int
    name: str = "a"
    _hidden: int = 0

    @property
    def twice(self) -> int: ...

    async def wait(self, seconds: float, *, hard: bool = False) -> None: ...

    def _secret(self) -> None: ...


def make(size: int = 1) -> Thing: ...


def private() -> None: ...
'''

LISTING = """\
class small.Thing(_Base)
    size: int
    name: str = 'a'
    def inherited() -> int
    property twice: int
    async def wait(seconds: float, *, hard: bool = False) -> None
def small.make(size: int = 1) -> Thing
"""


def test_public_api_is_the_recorded_one() -> None:
    written, now = SNAPSHOT.read_text(encoding="utf-8").splitlines(), api().splitlines()
    difference = "\n".join(difflib.unified_diff(written, now, str(SNAPSHOT.name), "the source", lineterm="", n=1))
    assert not difference, (
        f"The public API has changed. If this is intended, run `{COMMAND}`, commit tests/api.txt with the change, and "
        f"note in CHANGELOG.md what users have to do. Otherwise undo it:\n{difference}"
    )


def listing(directory: Path, text: str) -> str:
    package = directory / "small"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(text)
    return api([directory], ("small",))


def test_listing_has_exactly_the_exported_names(tmp_path: Path) -> None:
    assert listing(tmp_path, SMALL) == LISTING


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hard: bool = False", "hard: bool = True"),
        ("*, hard", "hard"),
        ("async def wait", "def wait"),
        ("-> Thing", "-> Thing | None"),
        ('    size: int\n    name: str = "a"', '    name: str = "a"\n    size: int = 0'),
        ("def inherited", "def inherits"),
        ("    @property\n", ""),
        ('["Thing", "make"]', '["Thing"]'),
    ],
)
def test_change_that_users_notice_changes_the_listing(tmp_path: Path, before: str, after: str) -> None:
    assert before in SMALL
    assert listing(tmp_path, SMALL.replace(before, after)) != LISTING


@pytest.mark.parametrize(
    ("before", "after"), [("def _secret", "def _secrets"), ("def private", "def hidden"), ('"""One."""', '"""Two."""')]
)
def test_change_of_private_names_keeps_the_listing(tmp_path: Path, before: str, after: str) -> None:
    assert listing(tmp_path, SMALL.replace(before, after)) == LISTING
