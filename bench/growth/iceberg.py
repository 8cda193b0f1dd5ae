"""Builds an Iceberg table with many snapshots: repeats the snapshot of one link in the table's metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.growth.chains import history
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.iceberg.history import LINK_PROPERTY, wap_id


def build(warehouse: Path, name: str, length: int) -> None:
    """Give a table `length` snapshots.

    Args:
        warehouse: Directory of a Hadoop catalog.
        name: Name of the table in the namespace `bench`. One link has been appended to it.
        length: Number of snapshots.
    """
    directory = warehouse / "bench" / name / "metadata"
    version = int((directory / "version-hint.text").read_text())
    metadata = json.loads((directory / f"v{version}.metadata.json").read_text())
    model = metadata["snapshots"][-1]
    started = model["timestamp-ms"] - length - 1
    snapshots = [_snapshot(model, number, started, link) for number, link in enumerate(history(length), start=1)]
    metadata["snapshots"] = snapshots
    metadata["snapshot-log"] = [
        {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]} for snapshot in snapshots
    ]
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = snapshots[-1]["snapshot-id"]
    metadata["last-sequence-number"] = length
    metadata["properties"] = {
        key: value for key, value in metadata["properties"].items() if not key.startswith("sarameya.chain.")
    }
    metadata["metadata-log"] = []
    (directory / f"v{version + 1}.metadata.json").write_text(json.dumps(metadata))
    (directory / f".v{version + 1}.metadata.json.crc").unlink(missing_ok=True)
    (directory / "version-hint.text").write_text(str(version + 1))
    (directory / ".version-hint.text.crc").unlink(missing_ok=True)


def _snapshot(model: dict[str, Any], number: int, started: int, link: Link) -> dict[str, Any]:
    summary = {
        **model["summary"],
        "wap.id": wap_id(link.key, link.number),
        LINK_PROPERTY: link.to_json(),
    }
    snapshot = {**model, "snapshot-id": 1_000_000 + number, "sequence-number": number, "timestamp-ms": started + number}
    snapshot["summary"] = summary
    snapshot.pop("parent-snapshot-id", None)
    if number > 1:
        snapshot["parent-snapshot-id"] = 1_000_000 + number - 1
    return snapshot
