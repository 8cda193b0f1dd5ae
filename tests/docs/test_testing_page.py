"""Programs of docs/testing.md run unchanged, and the names in its tables exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import sarameya_pytest
from sarameya.testing import ClaimFeed
from tests.docs.pages import blocks, page
from tests.testing.user_project import Project

PAGE = page("testing")


def first_column(header: str) -> list[str]:
    """Return the names in the first column of the table with this header."""
    (rows,) = re.findall(rf"^\| {header} \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return re.findall(r"^\| `(\w+)", rows, re.MULTILINE)


def test_page_is_a_passing_test_suite(tmp_path: Path) -> None:
    project, text = Project(tmp_path), "\n\n".join(blocks(PAGE, "python"))
    (settings,) = blocks(PAGE, "ini")
    (project.tests / "pytest.ini").write_text(settings)
    project.passes(text, "-W", "error", count=len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)))


def test_every_feed_method_is_listed() -> None:
    calls = {name for name, _ in inspect.getmembers(ClaimFeed, inspect.isfunction) if not name.startswith("_")}
    assert set(first_column("call")) == calls


def test_every_fixture_is_listed() -> None:
    fixtures = re.findall(r"^@pytest.fixture\n(?:async )?def (\w+)", inspect.getsource(sarameya_pytest), re.MULTILINE)
    assert len(fixtures) == 7
    assert set(first_column("fixture")) == set(fixtures)
