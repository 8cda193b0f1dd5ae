"""`python -m bench.page [DIR]`: puts what benches have measured into docs/benchmarks.md, so that no number is typed.

DIR has the documents that `python -m bench --results DIR` wrote. They are copied to docs/benchmarks/, each in place
of the last of its bench, and what stands on the page between

    <!-- generated: NAME -->
    <!-- end -->

is written anew from there, for each bench. Without DIR only that is done. A test fails while the page is not what the
documents say.
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


def written(page: str, documents: Mapping[str, Document]) -> str:
    """The page with each bench's block as its document says. Raises ValueError where it has other blocks."""
    blocks = [match["name"] for match in _BLOCK.finditer(page)]
    if sorted(blocks) != sorted(BENCHES):
        raise ValueError(f"the page has blocks named {sorted(blocks)}, the benches are {sorted(BENCHES)}")

    def block(match: re.Match[str]) -> str:
        document = documents.get(match["name"])
        lines = [_NOTHING] if document is None else list(section(document))
        return match["begin"] + "\n".join(lines) + "\n" + match["end"]

    return _BLOCK.sub(block, page)


def kept() -> dict[str, Document]:
    """The documents that the page is made of, by bench."""
    return {document.bench: document for document in read(DOCUMENTS)}


def main(arguments: Sequence[str]) -> int:
    """Take over the documents of the directory, if one is given, and write the page."""
    DOCUMENTS.mkdir(exist_ok=True)
    for directory in arguments:
        for path in sorted(Path(directory).glob("*.json")):
            shutil.copy(path, DOCUMENTS / f"{of_json(path.read_text(encoding='utf-8')).bench}.json")
    documents = kept()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), documents), encoding="utf-8")
    missing = [name for name in BENCHES if name not in documents]
    print(
        f"{PAGE.name}: {', '.join(documents) or 'nothing'}{'; not measured: ' if missing else ''}{', '.join(missing)}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
