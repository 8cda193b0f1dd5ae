"""Draws the state diagrams in ARCHITECTURE.md from the transition tables in the code.

`make diagrams` (that is, `python -m tools.diagrams`) rewrites the text between

    <!-- generated: NAME -->
    <!-- end -->

for each NAME in `MACHINES`; a test fails if a block differs from its table. Drawing is pure: a table in, text out. Each
transition is an arrow. Inputs that leave a state unchanged are listed below the diagram; all others are impossible.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from sarameya.embedded.groups.model import group_states as coordinator
from sarameya.group.session_machine import transitions as session
from sarameya.protocol.membership import states as membership

PAGE = Path(__file__).parents[1] / "ARCHITECTURE.md"
COMMAND = "make diagrams"

Table = Mapping[Any, Mapping[Any, Any]]
"""State -> input -> next state. States and inputs are enums; the machine begins in the first state."""

MACHINES: Mapping[str, Table] = {
    "coordinator": coordinator.TRANSITIONS,
    "membership": membership.TRANSITIONS,
    "session": session.TRANSITIONS,
}

_BLOCK = re.compile(r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.DOTALL)

_WIDTH = 120

_MANY, _MISSING = 4, 1
"""An input has one arrow from "any other" if `_MANY` states or more share its target and at most `_MISSING` do not."""


def draw(table: Table) -> str:
    """Return a Mermaid state diagram, and a line about the inputs that leave a state unchanged."""
    first = next(iter(table))
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first.name}"]
    lines += [f"    {line}" for line in (*_from_each(table), *_from_any(table))]
    lines += ["```", ""]
    staying = [
        f"{state.name} on {_listed(by for by, target in row.items() if target is state)}"
        for state, row in table.items()
        if state in row.values()
    ]
    without = f"Inputs without effect: {'; '.join(staying)}. " if staying else ""
    lines += textwrap.wrap(f"{without}All other inputs are impossible.", _WIDTH)
    return "\n".join(lines) + "\n"


def redrawn(page: str, machines: Mapping[str, Table] = MACHINES) -> str:
    """Return the page with all blocks updated. Raises ValueError if its blocks are not those of the machines."""
    blocks = [match["name"] for match in _BLOCK.finditer(page)]
    if sorted(blocks) != sorted(machines):
        raise ValueError(f"the page has blocks named {sorted(blocks)}, the code has machines named {sorted(machines)}")
    return _BLOCK.sub(lambda block: f"{block['begin']}{draw(machines[block['name']])}{block['end']}", page)


def main() -> int:
    """Regenerate the diagrams, and print whether they have changed."""
    before = PAGE.read_text(encoding="utf-8")
    after = redrawn(before)
    PAGE.write_text(after, encoding="utf-8")
    print(f"{PAGE.name}: {'unchanged' if after == before else 'updated'}")
    return 0


def _from_each(table: Table) -> Iterator[str]:
    """Yield the arrows from single states: one for all inputs that share source and target."""
    merged = {by_and_target for by_and_target, _ in _merged(table)}
    for state, row in table.items():
        for target in dict.fromkeys(row.values()):
            inputs = [by for by, to in row.items() if to is target and (by, to) not in merged]
            if inputs and target is not state:
                yield f"{state.name} --> {target.name} : {_listed(inputs)}"


def _from_any(table: Table) -> Iterator[str]:
    """Yield the arrows from "any other", each from its own node, so that lines do not cross."""
    for number, ((by, target), missing) in enumerate(_merged(table)):
        label = f"any other but {_listed(missing)}" if missing else "any other"
        yield f'state "{label}" as any{number}'
        yield f"any{number} --> {target.name} : {by.name}"


def _merged(table: Table) -> Iterator[tuple[tuple[Enum, Enum], list[Enum]]]:
    """Yield the (input, target) pairs that many states share, with the other states that do not share them."""
    pairs = dict.fromkeys((by, target) for state, row in table.items() for by, target in row.items())
    for by, target in pairs:
        others = [state for state in table if state is not target]
        missing = [state for state in others if table[state].get(by) is not target]
        if len(others) - len(missing) >= _MANY and len(missing) <= _MISSING:
            yield (by, target), missing


def _listed(names: Iterable[Enum]) -> str:
    return ", ".join(name.name for name in names)


if __name__ == "__main__":
    sys.exit(main())
