"""Builds a Parquet directory with a long chain: writes manifests, but not the data files that they name."""

from __future__ import annotations

from pathlib import Path

import attrs
import msgspec

from bench.growth.chains import BUSY, QUIET, ROWS, link
from bench.growth.landing import land
from sarameya_handlers.landing.directory.manifests import DataFile, Manifest
from sarameya_handlers.spark.parquet.table import ParquetTable

_HINT_EVERY = 16
"""Links between two updates of the head file, as in `manifests`."""


def build(root: Path, length: int) -> None:
    """Give the first partition a chain of `length` links, and each other partition a chain of one link."""
    table = ParquetTable(root)
    table.prepare()
    land(None, table, QUIET, None)  # which also writes the directory's schema
    for key, last in {**dict.fromkeys(BUSY, 1), BUSY[0]: length}.items():
        directory = root / "_sarameya" / "links" / key.sink / key.topic / str(key.partition)
        directory.mkdir(parents=True)
        model = link(key, 1, "0" * 32)
        for number in range(1, last + 1):
            numbered = attrs.evolve(model, number=number, from_offset=(number - 1) * ROWS, to_offset=number * ROWS)
            files = (DataFile(f"part-{key.topic}-{key.partition}-{number}.parquet", ROWS, 20_000),)
            (directory / f"{number:020d}.json").write_bytes(msgspec.json.encode(Manifest(numbered, files)))
        if last >= _HINT_EVERY:
            (directory / "head").write_text(str(last // _HINT_EVERY * _HINT_EVERY))
