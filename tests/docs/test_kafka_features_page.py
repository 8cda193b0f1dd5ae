"""docs/kafka-features.md: the code names each KIP that is listed as supported. KIPs 714, 848 and 932 are not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/kafka-features.md"
_ROW = re.compile(r"^\| (\d+) \| [^|]+ \| (yes|–) \| (yes|–) \|$", re.MULTILINE)


def kips_of_code(folder: Path) -> set[str]:
    return {kip for file in folder.rglob("*.py") for kip in re.findall(r"KIP-(\d+)", file.read_text(encoding="utf-8"))}


def test_supported_kips_are_named_in_the_code() -> None:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 30
    assert len({kip for kip, *_ in rows}) == len(rows)
    assert {kip for kip, *_ in rows} <= kips_of_code(ROOT / "runtime")
    assert all("yes" in columns for _, *columns in rows)


def test_declined_kips_are_on_the_page_and_in_the_configuration() -> None:
    declined = PAGE.read_text(encoding="utf-8").partition("## Not supported")[2]
    assert {"714", "848", "932"} <= set(re.findall(r"^\| (\d+) \|", declined, re.MULTILINE))
    for kip in ("714", "848", "932"):
        assert f"KIP-{kip}" in (ROOT / "runtime/sarameya/config/kafka_names.py").read_text(encoding="utf-8")
