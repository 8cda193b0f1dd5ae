"""Check with Go's compiler that sarama has the names of docs/coming-from-sarama.md.

Run it by `python -m tests.docs.check_sarama_names`.

The command needs Go and sarama's source in the version of the benchmarks. It writes the names that exist to
golden/sarama_names.txt; the tests compare the page with this file.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.name_tables import rows
from tests.docs.pages import ROOT, page

NAMES = Path(__file__).parent / "golden" / "sarama_names.txt"
PINNED = ROOT / "bench" / "consume" / "go"
OPTIONS = ("Consumer.Fetch.", "Consumer.Group.", "Consumer.Offsets.", "Consumer.Max", "Consumer.Isolation", "Net.")
OPTIONS += ("ChannelBufferSize", "ClientID", "RackID")
"""Prefixes of the names that are fields of sarama's Config. All other names are functions, types and methods."""


def documented_names() -> list[str]:
    """Return sarama's names on the page."""
    return sorted({name for theirs, _, _ in rows(page("coming-from-sarama")) for name in theirs})


def version() -> str:
    """Return the version of sarama that the benchmarks build with."""
    [found] = re.findall(r"github.com/IBM/sarama (v\S+)", (PINNED / "go.mod").read_text())
    return found


def statement(name: str) -> str:
    """Return a statement that compiles only if the option, method, function or type exists."""
    if name.startswith(OPTIONS):
        return f"_ = sarama.NewConfig().{name}"
    return f"_ = sarama.{name}" if "." in name or name.startswith("New") else f"_ = (*sarama.{name})(nil)"


def unknown(names: list[str]) -> str:
    """Return the compiler's errors about names that do not exist."""
    lines = ["package main", 'import "github.com/IBM/sarama"', "func main() {", *map(statement, names), "}"]
    with tempfile.TemporaryDirectory() as directory:
        for file in ("go.mod", "go.sum"):
            shutil.copy(PINNED / file, directory)
        (Path(directory) / "main.go").write_text("\n".join(lines) + "\n")
        build = ["go", "build", "-mod=mod", "-gcflags=-e", "-o", "main", "."]
        done = subprocess.run(build, cwd=directory, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


if __name__ == "__main__":
    if problem := unknown(documented_names()):
        sys.exit(problem)
    NAMES.write_text("\n".join([f"# {version()}", *documented_names()]) + "\n")
