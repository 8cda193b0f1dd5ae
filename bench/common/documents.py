"""A run of a bench as JSON, and read from it again. Times are seconds, sizes are bytes, rates are a second's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cattrs

from bench.common.tables import Document


def to_json(document: Document) -> str:
    told: dict[str, Any] = cattrs.unstructure(document)
    return json.dumps({**told, "versions": document.versions}, indent=2) + "\n"


def of_json(text: str) -> Document:
    """Raises what cattrs does for what is none."""
    return cattrs.structure(json.loads(text), Document)


def read(directory: Path) -> list[Document]:
    """Each document in a directory, by its file's name."""
    return [of_json(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]
