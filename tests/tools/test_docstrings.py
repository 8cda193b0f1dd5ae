"""The check of docstrings' first words. It covers all kinds of docstrings, and this repository passes it."""

from __future__ import annotations

import pytest

from tools.docstrings import main, openers

SOURCE = '''
"""What is there."""

LIMIT = 3
"""Whose number that is."""
NAME: str = "a"
"""None without a group."""
TEXT = "What now"


class Thing:
    """Whether it is one."""

    size: int = 0
    """Size in bytes."""

    async def wait(self) -> None:
        """Of no use."""
        self.left = 0
        """It is what is left."""


def works() -> None:
    """Whatever: return nothing."""
'''


def test_forbidden_first_word_is_found_everywhere() -> None:
    assert sorted(str(opener) for opener in openers(SOURCE, "a.py")) == [
        "a.py:12: Whether it is one.",
        "a.py:18: Of no use.",
        "a.py:20: It is what is left.",
        "a.py:2: What is there.",
        "a.py:5: Whose number that is.",
    ]


def test_repository_passes_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out
