"""Writes a run of a bench as JSON, and reads it. Times are seconds, sizes are bytes, rates are per second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cattrs

from bench.common.tables import Document


def to_json(document: Document) -> str:
    fields: dict[str, Any] = cattrs.unstructure(document)
    return json.dumps({**fields, "versions": document.versions}, indent=2) + "\n"


def of_json(text: str) -> Document:
    """Parse a document. Raises what json and cattrs raise for another text."""
    return cattrs.structure(json.loads(text), Document)


def read(directory: Path) -> list[Document]:
    """Return the documents in a directory, in the order of their file names."""
    return [of_json(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]
