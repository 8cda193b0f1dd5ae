"""A reader of links in a table's files that uses the names of an older build, without the project's code."""

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
    """A link of a table, with the name that only one attempt can take."""

    place: str
    """A file's name (Parquet), a `txn`'s appId and version (Delta), or a WAP id (Iceberg)."""
    link: dict[str, Any]

    @property
    def partition(self) -> int:
        return int(self.link["key"]["partition"])


def links_of(kind: str, table: Path) -> list[Found]:
    """Return the links of a table's current state, sorted by partition and number."""
    links = {"parquet": _parquet, "delta": _delta, "iceberg": _iceberg}[kind](table)
    return sorted(links, key=lambda found: (found.partition, found.link["number"]))


def _parquet(table: Path) -> Iterator[Found]:
    for path in (table / "_sarameya" / "links").glob("*/*/*/*.json"):
        manifest = json.loads(path.read_bytes())
        assert all({"name", "rows", "size"} <= file.keys() for file in manifest["files"])
        yield Found(str(path.relative_to(table)), manifest["link"])


def _delta(table: Path) -> Iterator[Found]:
    """Return the links of all commits that no RESTORE has removed: it removes commits after its target version."""
    links: dict[int, Found] = {}
    for path in sorted((table / "_delta_log").glob("*.json")):
        version, txn, metadata = int(path.stem), None, None
        for action in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if "txn" in action:
                txn = f"{action['txn']['appId']} {action['txn']['version']}"
            if info := action.get("commitInfo"):
                if info["operation"] == "RESTORE":
                    target = int(info["operationParameters"]["version"])
                    links = {number: found for number, found in links.items() if number <= target}
                metadata = json.loads(info.get("userMetadata") or "{}").get("sarameya")
        if metadata:
            assert {"seen", "term"} <= metadata.keys()
            assert txn is not None
            links[version] = Found(txn, metadata["link"])
    return iter(links.values())


def _iceberg(table: Path) -> Iterator[Found]:
    """Yield links from the current snapshot back to the first.

    A cherry-picked snapshot names the staged snapshot, whose summary has the link.
    """
    metadata = table / "metadata"
    version = int((metadata / "version-hint.text").read_text())
    document = json.loads((metadata / f"v{version}.metadata.json").read_text(encoding="utf-8"))
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in document["snapshots"]}
    current = document["current-snapshot-id"]
    while current in snapshots:
        summary = snapshots[current]["summary"]
        wap = summary.get("published-wap-id") or summary.get("wap.id")
        if wap:
            source = summary.get("source-snapshot-id")
            staged = snapshots[int(source)]["summary"] if source else summary
            yield Found(wap, json.loads(staged["sarameya.link"]))
        current = snapshots[current].get("parent-snapshot-id")


def check_chains(links: list[Found], ends: dict[int, int]) -> None:
    """Check links as an older build does: each has all fields, and each chain is without gaps, of one origin.

    Args:
        links: the links of a table, sorted by partition and number.
        ends: the end offset of each partition's last link.
    """
    last: dict[int, dict[str, Any]] = {}
    for found in links:
        link = found.link
        assert set(_FIELDS) <= link.keys(), found
        assert link["kind"] in ("records", "gap", "restated"), found
        assert re.fullmatch("[0-9a-f]{32}", link["attempt"]), found
        before = last.get(found.partition)
        assert link["number"] == (before["number"] + 1 if before else 1), found
        assert link["from_offset"] == (before["to_offset"] if before else 0), found
        if before:
            assert (link["key"], link["origin"]["group"]) == (before["key"], before["origin"]["group"]), found
            assert link["origin"]["topic_id"] == before["origin"]["topic_id"], found
        last[found.partition] = link
    assert {partition: link["to_offset"] for partition, link in last.items()} == ends
