"""Landed offsets, read from a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.landing_day.landed_offsets import SINK, landed_offsets
from sarameya_handlers.landing.directory.manifests import Manifest, Manifests
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history.commits import CommitMark


def link(partition: int, number: int, to_offset: int) -> Link:
    return Link(
        key=ChainKey(SINK, "t", partition),
        origin=Origin(group="g", topic_id="i"),
        number=number,
        from_offset=0,
        to_offset=to_offset,
        attempt=f"{partition}-{number}",
    )


def land(kind: str, place: Path, *links: Link) -> None:
    """Commit each link. A Delta table also has commits without a link."""
    for one in links:
        if kind == "parquet":
            Manifests(LocalStore(place)).put(Manifest(one))
            continue
        log = place / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        for metadata in (None, CommitMark(one, seen=0, term=0).to_json()):
            info = {"commitInfo": {"operation": "WRITE", **({"userMetadata": metadata} if metadata else {})}}
            version = len(list(log.iterdir()))
            (log / f"{version:020}.json").write_text(f'{json.dumps(info)}\n{{"add": {{"path": "p"}}}}\n')


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_landed_offsets_are_read_from_the_table(kind: str, tmp_path: Path) -> None:
    landed = landed_offsets(kind, tmp_path / "table", "t", partitions=3)

    assert list(landed()) == [0, 0, 0]
    land(kind, tmp_path / "table", link(0, 1, 10), link(2, 1, 5))
    assert list(landed()) == [10, 0, 5]
    land(kind, tmp_path / "table", link(0, 2, 20))
    assert list(landed()) == [20, 0, 5]
