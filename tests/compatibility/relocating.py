"""An Iceberg table moved to another directory: its metadata name every file by an absolute path.

Delta's and our own metadata have paths below the table's directory, and need nothing.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro


def relocate(table: Path, old: str, new: str) -> None:
    """Put `new` for `old` in the metadata of the table whose directory this is, whatever state it is in.

    Lists of manifests say how long each manifest is, which has changed by then. Hadoop's checksums go.
    """
    for checksum in table.rglob(".*.crc"):
        checksum.unlink()
    metadata = table / "metadata"
    is_list = lambda path: path.name.startswith("snap-")  # noqa: E731
    for path in sorted(metadata.glob("*.avro"), key=is_list):
        _rewrite(path, old, new)
    for path in metadata.glob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def _rewrite(path: Path, old: str, new: str) -> None:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records, told = [_moved(record, old, new) for record in reader], dict(reader.metadata)
    for record in records:
        if "manifest_path" in record:
            manifest = path.with_name(record["manifest_path"].rpartition("/")[2])
            if manifest.exists():  # of an overlay, which has the new ones alone, the others are rewritten already
                record["manifest_length"] = manifest.stat().st_size
    schema, codec = json.loads(told.pop("avro.schema")), told.pop("avro.codec", "null")
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(schema), records, codec=codec, metadata=told, sync_marker=b"s" * 16)
    path.write_bytes(written.getvalue())


def _moved(value: Any, old: str, new: str) -> Any:
    match value:
        case str():
            return value.replace(old, new)
        case dict():
            return {key: _moved(inner, old, new) for key, inner in value.items()}
        case list():
            return [_moved(inner, old, new) for inner in value]
    return value
