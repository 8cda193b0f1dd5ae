"""Relocation of an Iceberg table to another directory. Its metadata names all files by absolute paths.

Delta's metadata and the project's own have paths relative to the table's directory, so they need no change.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro


def relocate(table: Path, old: str, new: str) -> None:
    """Replace the path `old` by `new` in all metadata of a table, and remove Hadoop's checksum files.

    Manifests are rewritten before the manifest lists, which have the length of each manifest.

    Args:
        table: the directory that has the table's files now.
        old: the path of the table's directory in its metadata.
        new: the path to write instead.
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
        records, metadata = [_moved(record, old, new) for record in reader], dict(reader.metadata)
    for record in records:
        if "manifest_path" in record:
            manifest = path.with_name(record["manifest_path"].rpartition("/")[2])
            # An overlay has only its new manifests. Those of the table below it are rewritten already.
            if manifest.exists():
                record["manifest_length"] = manifest.stat().st_size
    schema, codec = json.loads(metadata.pop("avro.schema")), metadata.pop("avro.codec", "null")
    parsed, written = fastavro.parse_schema(schema), io.BytesIO()
    fastavro.writer(written, parsed, records, codec=codec, metadata=metadata, sync_marker=b"s" * 16)
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
