"""`python -m bench.page [DIR]`: puts what benches have measured into docs/benchmarks.md, so that no number is typed.

DIR has the documents that `python -m bench --results DIR` wrote. They are copied to docs/benchmarks/, where each
replaces the previous one of its bench. Then each block of the page,

    <!-- generated: NAME -->
    <!-- end -->

is generated from the document of the bench NAME. Without DIR, nothing is copied. A test fails if the page differs from
the documents.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import BENCHES
from bench.common.documents import of_json, read
from bench.common.markdown import section
from bench.common.tables import Document
from tests.integration.peers.running import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
DOCUMENTS = ROOT / "docs" / "benchmarks"

_BLOCK = re.compile(r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.DOTALL)
_NOTHING = "Not measured yet."


def render_page(page: str, documents: Mapping[str, Document]) -> str:
    """Return the page with each block generated from its document.

    Args:
        page: Text of the page.
        documents: Documents by bench. A bench without one was not measured.

    Raises:
        ValueError: The blocks are not one for each bench.
    """
    blocks = [match["name"] for match in _BLOCK.finditer(page)]
    if sorted(blocks) != sorted(BENCHES):
        raise ValueError(f"the page has blocks named {sorted(blocks)}, the benches are {sorted(BENCHES)}")

    def block(match: re.Match[str]) -> str:
        document = documents.get(match["name"])
        lines = [_NOTHING] if document is None else list(section(document))
        return match["begin"] + "\n".join(lines) + "\n" + match["end"]

    return _BLOCK.sub(block, page)


def stored_documents() -> dict[str, Document]:
    """Return the documents in docs/benchmarks/, by bench."""
    return {document.bench: document for document in read(DOCUMENTS)}


def main(arguments: Sequence[str]) -> int:
    """Copy the documents of the directories, if any are given, and write the page."""
    DOCUMENTS.mkdir(exist_ok=True)
    for directory in arguments:
        for path in sorted(Path(directory).glob("*.json")):
            shutil.copy(path, DOCUMENTS / f"{of_json(path.read_text(encoding='utf-8')).bench}.json")
    documents = stored_documents()
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8"), documents), encoding="utf-8")
    missing = [name for name in BENCHES if name not in documents]
    print(
        f"{PAGE.name}: {', '.join(documents) or 'nothing'}{'; not measured: ' if missing else ''}{', '.join(missing)}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
