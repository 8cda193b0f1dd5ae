"""What every bench does with its tables: prints each as it comes, writes all of them for programs, counts failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

from bench.common.documents import to_json
from bench.common.lines import heading, table_lines, versions
from bench.common.machine import Machine
from bench.common.tables import Document, Table


def present(bench: str, about: str, tables: Iterable[Table], json: Path | None) -> int:
    """Print the tables, and write them to `json`, each as it comes. 1 where a contender has failed, else 0."""
    began = time.monotonic()
    document = Document(bench, about, Machine.here(), 0.0, [])
    if json is not None:
        json.touch()  # a path that cannot be written is told before anything takes time
    print("\n".join(heading(document)), flush=True)
    for table in tables:
        document = attrs.evolve(document, tables=[*document.tables, table], seconds=time.monotonic() - began)
        print("\n" + "\n".join(table_lines(table)), flush=True)
        if json is not None:
            json.write_text(to_json(document), encoding="utf-8")
    print("\n" + "\n".join([*versions(document), f"{bench} took {document.seconds:.0f} s"]), flush=True)
    return int(document.has_failures)


def say(text: str) -> None:
    """Progress, for who waits."""
    print(text, file=sys.stderr, flush=True)
