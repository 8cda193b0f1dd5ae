"""Links as an older build finds them in a table's files: read without any code of ours, by the names that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

_FIELDS = ("key", "number", "from_offset", "to_offset", "attempt", "origin", "rows", "leader_epoch", "kind", "reason")


@attrs.frozen
class Found:
    """A link, and what is put only once for it: a file's name, a `txn`'s appId and version, a wap id."""

    place: str
    link: dict[str, Any]

    @property
    def partition(self) -> int:
        return int(self.link["key"]["partition"])


def links_of(kind: str, table: Path) -> list[Found]:
    """Return the links of a table's current state, by partition and number."""
    found = {"parquet": _parquet, "delta": _delta, "iceberg": _iceberg}[kind](table)
    return sorted(found, key=lambda one: (one.partition, one.link["number"]))


def _parquet(table: Path) -> Iterator[Found]:
    for path in (table / "_sarameya" / "links").glob("*/*/*/*.json"):
        manifest = json.loads(path.read_bytes())
        assert all({"name", "rows", "size"} <= file.keys() for file in manifest["files"])
        yield Found(str(path.relative_to(table)), manifest["link"])


def _delta(table: Path) -> Iterator[Found]:
    """A RESTORE takes away what came behind the version that it goes back to."""
    found: dict[int, Found] = {}
    for path in sorted((table / "_delta_log").glob("*.json")):
        version, txn, mark = int(path.stem), None, None
        for action in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if "txn" in action:
                txn = f"{action['txn']['appId']} {action['txn']['version']}"
            if info := action.get("commitInfo"):
                if info["operation"] == "RESTORE":
                    to = int(info["operationParameters"]["version"])
                    found = {number: one for number, one in found.items() if number <= to}
                mark = json.loads(info.get("userMetadata") or "{}").get("sarameya")
        if mark:
            assert {"seen", "term"} <= mark.keys()
            assert txn is not None
            found[version] = Found(txn, mark["link"])
    return iter(found.values())


def _iceberg(table: Path) -> Iterator[Found]:
    """Yield links from the current snapshot back to the first.

    A picked snapshot names the staged one, which has the link.
    """
    metadata = table / "metadata"
    version = int((metadata / "version-hint.text").read_text())
    told = json.loads((metadata / f"v{version}.metadata.json").read_text(encoding="utf-8"))
    snapshots = {one["snapshot-id"]: one for one in told["snapshots"]}
    current = told["current-snapshot-id"]
    while current in snapshots:
        summary = snapshots[current]["summary"]
        wap = summary.get("published-wap-id") or summary.get("wap.id")
        if wap:
            source = summary.get("source-snapshot-id")
            staged = snapshots[int(source)]["summary"] if source else summary
            yield Found(wap, json.loads(staged["sarameya.link"]))
        current = snapshots[current].get("parent-snapshot-id")


def check_chains(links: list[Found], ends: dict[int, int]) -> None:
    """Read links as an older build does: all fields, dense, contiguous, of one origin, up to these ends."""
    last: dict[int, dict[str, Any]] = {}
    for one in links:
        link = one.link
        assert set(_FIELDS) <= link.keys(), one
        assert link["kind"] in ("records", "gap", "restated"), one
        assert re.fullmatch("[0-9a-f]{32}", link["attempt"]), one
        before = last.get(one.partition)
        assert link["number"] == (before["number"] + 1 if before else 1), one
        assert link["from_offset"] == (before["to_offset"] if before else 0), one
        if before:
            assert (link["key"], link["origin"]["group"]) == (before["key"], before["origin"]["group"]), one
            assert link["origin"]["topic_id"] == before["origin"]["topic_id"], one
        last[one.partition] = link
    assert {partition: link["to_offset"] for partition, link in last.items()} == ends
