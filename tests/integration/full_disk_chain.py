"""A program that lands links 15 to 18 of a Parquet table on a full disk, with each number of free pages.

`python -m tests.integration.full_disk_chain DIRECTORY` must run in its own mount namespace (see `test_full_disk.py`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds

from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.directory.manifests import Manifests
from sarameya_handlers.landing.files import is_there
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.shaping.shaping import Shaping
from tests.conformance.invariants import chain_of
from tests.conformance.owners import KEY, Owner
from tests.integration.full_disk import fill

FIRST, LAST = 15, 40
RECORDS = 3
PAGE = 4096
MAX_PAGES = 12
"""The largest number of free pages: more than all files of a landing need on a tmpfs."""


def land(owner: Owner) -> None:
    assert owner.append(RECORDS).outcome is Outcome.LANDED, owner.error


def land_with(free_bytes: int, disk: Path, owner: Owner, root: Path) -> int:
    """Try to land a link with this free space up to five times, then with enough space. Return the failed attempts."""
    ballast, number = disk / "ballast", owner.chain.next_number
    fill(ballast, free_bytes)
    failed = 0
    while failed < 5 and owner.append(RECORDS).outcome is Outcome.ABSENT:
        failed += 1
    ballast.unlink()
    for manifest in Manifests(LocalStore(root)).since(KEY, 1):
        for file in manifest.files:
            places = (root / file.name, root / "_sarameya" / "landing" / manifest.link.attempt / file.name)
            assert any(map(is_there, places)), f"{manifest.link}: {file.name} is missing"
    while owner.chain.next_number <= number:
        land(owner)
    return failed


def prove(table: ParquetTable) -> None:
    """Check that the table has all links, and each record once."""
    links = chain_of(table, None, KEY)
    rows = ds.dataset(table.path, format="parquet").to_table(columns=["offset"])
    assert Counter(rows["offset"].to_pylist()) == dict.fromkeys(range(len(links) * RECORDS), 1)
    assert len(links) == LAST


def main(directory: Path) -> None:
    disk = directory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(disk)], check=True)
    for pages in range(MAX_PAGES + 1):
        root = disk / "table"
        table = ParquetTable(root)
        table.open(None)  # type: ignore[arg-type]
        owner = Owner(table, None, Shaping())
        while owner.chain.next_number < FIRST:
            land(owner)
        failed = [land_with(pages * PAGE, disk, owner, root) for _ in range(4)]
        print(pages, "pages free, failed attempts:", failed, flush=True)
        assert any(failed) == (failed[0] == 5), "enough space for one link is enough for each"
        assert pages or failed == [5, 5, 5, 5]
        while owner.chain.next_number <= LAST:
            land(owner)
        prove(table)
        shutil.rmtree(root)
    assert not any(failed)
    print("landed everything", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
