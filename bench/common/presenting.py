"""Prints the tables of a bench, each once it is measured, and writes them as JSON for programs."""

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
    """Print the tables, and write them to a file, each once it is measured.

    Args:
        bench: Name of the bench.
        about: One line about the measurement.
        tables: Measures a table whenever the next one is requested.
        json: File for the document; None to write none.

    Returns:
        Exit code: 1 if a contender has failed, else 0.
    """
    began = time.monotonic()
    document = Document(bench, about, Machine.here(), 0.0, [])
    if json is not None:
        json.touch()  # an unwritable path must raise before the measurement, which takes minutes
    print("\n".join(heading(document)), flush=True)
    for table in tables:
        document = attrs.evolve(document, tables=[*document.tables, table], seconds=time.monotonic() - began)
        print("\n" + "\n".join(table_lines(table)), flush=True)
        if json is not None:
            json.write_text(to_json(document), encoding="utf-8")
    print("\n" + "\n".join([*versions(document), f"{bench} took {document.seconds:.0f} s"]), flush=True)
    return int(document.has_failures)


def show_progress(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)
