"""Finds docstrings with a forbidden first word: `python -m tools.docstrings`, a part of `make check`.

A docstring's first line is a noun phrase ("Partitions owned by this member.") or an imperative ("Return the committed
offset of each partition."), so that it can be understood alone. A line that opens with a question word or a pronoun
("What is raised to nobody.") cannot. ruff's `D` rules check the rest: a summary line, its full stop, the sections.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
CHECKED = ("runtime", "handlers", "bench", "examples", "tests", "tools")

_QUESTIONS = "What|Who|Whom|Whose|Whether|Which|Where|When|How|If"
_PRONOUNS = "That|This|These|Those|It|They|One|Ones|Such|There|Here|None|Nothing"
_VERBS = "Has|Have|Is"
_PARTICLES = "Of|As|To|From|By|In|On|With|For|Also|So|Now|Not"
_OPENER = re.compile(rf"(?:{_QUESTIONS}|{_PRONOUNS}|{_VERBS}|{_PARTICLES})\b")
_ATTRIBUTE_OPENER = re.compile(r"(?:What|Who|Whom|Whose|Whether|Of|These|This|It|One|By when|As long as)\b")
"""A shorter list: the docstring of an attribute, such as "None without a group id.", is read beside its name."""


@attrs.frozen(slots=True)
class Opener:
    """A docstring with a forbidden first word."""

    path: str
    line: int
    summary: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.summary}"


def openers(source: str, path: str = "") -> Iterator[Opener]:
    """Yield the docstrings of a module that open with a forbidden word.

    Args:
        source: Text of the module.
        path: Its name in the results.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and _OPENER.match(text):
                yield Opener(path, node.body[0].lineno, text.splitlines()[0])
            yield from _attribute_openers(node.body, path)


def _attribute_openers(body: Sequence[ast.stmt], path: str) -> Iterator[Opener]:
    for before, statement in pairwise(body):
        match before, statement:
            case (ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                if _ATTRIBUTE_OPENER.match(text):
                    yield Opener(path, statement.lineno, text.splitlines()[0])


def check(root: Path = ROOT, folders: Iterable[str] = CHECKED) -> list[Opener]:
    """Return the forbidden openers below these folders, in the order of their paths.

    Args:
        root: The repository.
        folders: Names of folders in it.
    """
    found: list[Opener] = []
    for file in sorted(file for folder in folders for file in (root / folder).rglob("*.py")):
        path = file.relative_to(root).as_posix()
        found += sorted(openers(file.read_text(encoding="utf-8"), path), key=lambda opener: opener.line)
    return found


def main() -> int:
    """Print the forbidden openers. Return 1 if there are any."""
    found = check()
    for opener in found:
        print(opener)
    if found:
        print(f"{len(found)} docstrings open with a forbidden word; see the first lines of tools/docstrings.py")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
