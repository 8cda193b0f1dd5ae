"""An Iceberg table with many snapshots: a landing's own snapshot, repeated in the table's metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.growth.chains import history
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.iceberg.history import LINK_PROPERTY, wap_id


def build(warehouse: Path, name: str, length: int) -> None:
    """Give the table `bench.<name>` of a Hadoop catalog, to which one link was appended, so many snapshots."""
    metadata = warehouse / "bench" / name / "metadata"
    version = int((metadata / "version-hint.text").read_text())
    told = json.loads((metadata / f"v{version}.metadata.json").read_text())
    model = told["snapshots"][-1]
    began = model["timestamp-ms"] - length - 1
    snapshots = [_snapshot(model, number, began, one) for number, one in enumerate(history(length), start=1)]
    told["snapshots"] = snapshots
    told["snapshot-log"] = [
        {"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in snapshots
    ]
    told["current-snapshot-id"] = told["refs"]["main"]["snapshot-id"] = snapshots[-1]["snapshot-id"]
    told["last-sequence-number"] = length
    told["properties"] = {
        key: value for key, value in told["properties"].items() if not key.startswith("sarameya.chain.")
    }
    told["metadata-log"] = []
    (metadata / f"v{version + 1}.metadata.json").write_text(json.dumps(told))
    (metadata / f".v{version + 1}.metadata.json.crc").unlink(missing_ok=True)
    (metadata / "version-hint.text").write_text(str(version + 1))
    (metadata / ".version-hint.text.crc").unlink(missing_ok=True)


def _snapshot(model: dict[str, Any], number: int, began: int, link: Link) -> dict[str, Any]:
    summary = {
        **model["summary"],
        "wap.id": wap_id(link.key, link.number),
        LINK_PROPERTY: link.to_json(),
    }
    one = {**model, "snapshot-id": 1_000_000 + number, "sequence-number": number, "timestamp-ms": began + number}
    one["summary"] = summary
    one.pop("parent-snapshot-id", None)
    if number > 1:
        one["parent-snapshot-id"] = 1_000_000 + number - 1
    return one
