"""Deliberate bugs in a copy of the code, and the tests that must fail with each of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).parent
_COPIED = ("runtime", "handlers", "tests", "bench", "examples", "tools", "pyproject.toml")
_TESTS_FAILED = 1
"""pytest's exit code for failed tests. Others mean that the tests did not run."""


class Outcome(StrEnum):
    """Result of the tests of a mutant."""

    CAUGHT = "caught"
    HUNG = "caught: the tests did not end"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN: the tests cannot run"


@attrs.frozen(slots=True, kw_only=True)
class Mutant:
    """A bug and the tests that must catch it.

    Attributes:
        name: Unique name.
        about: A sentence that describes the bug.
        file: The file, from the root of the repository.
        old: Text that occurs in the file exactly once.
        new: The replacement, with the bug.
        tests: pytest's arguments for the tests that must catch it.
    """

    name: str
    about: str
    file: str
    old: str
    new: str
    tests: Sequence[str]

    def apply(self, root: Path) -> None:
        """Put the bug into the code below `root`.

        Raises:
            ValueError: The file does not have the old text exactly once.
        """
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.file} has the old text {count} times, and must have it once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def read_mutants(lists: Path = LISTS) -> list[Mutant]:
    """Return the mutants of all lists, in order."""
    mutants = []
    for path in sorted(lists.glob("*.toml")):
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
        default_tests = listed["tests"]
        for entry in listed["mutant"]:
            fields = {**entry, "name": f"{path.stem}-{entry['name']}", "tests": entry.get("tests", default_tests)}
            mutants.append(Mutant(**fields))
    return mutants


def run_tests(mutant: Mutant, copy: Path, *, timeout: float) -> tuple[Outcome, str]:
    """Run the tests of a mutant in a fresh copy of the code.

    Args:
        mutant: The bug.
        copy: A directory that does not exist; removed afterwards.
        timeout: Seconds after which the tests are killed.

    Returns:
        The outcome, and the first failed test or the end of the output.
    """
    copy.mkdir()
    try:
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        mutant.apply(copy)
        # These come before the installed packages, which have the code without the bug.
        paths = os.pathsep.join(str(copy / name) for name in ("runtime", "handlers"))
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *mutant.tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome.HUNG, ""
    finally:
        shutil.rmtree(copy, ignore_errors=True)  # a child of tests that were killed may still write
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
    if ran.returncode == _TESTS_FAILED:
        return Outcome.CAUGHT, failed[0] if failed else ""
    if ran.returncode == 0:
        return Outcome.SURVIVED, ""
    return Outcome.BROKEN, (ran.stdout + ran.stderr)[-2_000:]
