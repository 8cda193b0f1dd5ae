"""Each file system call of a compaction fails in turn. No row is missing or duplicated afterwards."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from sarameya.service.cli import main
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.directory.compaction import Compacted, compact
from sarameya_handlers.landing.directory.data_files import DataFiles
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.landing.stores.local import LocalStore
from tests.conformance.disk_faults import Disk
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import land

KEY = ChainKey("sarameya", "orders", 0)
ROWS = list(range(6))
MOST_CALLS = 500
EACH_KIND = {"listdir", "stat", "mkdir", "open", "write", "flush", "fsync", "link", "rename", "read", "ParquetFile"}
"""Names of the calls that a compaction makes."""
REPAIRS: tuple[Callable[[Path], object], ...] = (
    lambda root: ParquetTable(root).open(None),
    lambda root: compact(LocalStore(root), 10**6),
    lambda root: main(["sweep", str(root), "--older-than", "1d", "--execute", "--quiet"]),
)
"""A service start, the next compaction, a sweep."""


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    """A directory with three links, of two rows each."""
    root = tmp_path / "landed"
    table = ParquetTable(root)
    table.open(None)
    land(table, *links_of(KEY, 2, 4, 6))
    return root


def plain_offsets(root: Path) -> list[int]:
    """Return the offsets that a reader of the plain directory sees."""
    table = pyarrow.dataset.dataset(root, format="parquet", schema=pa.schema([("offset", pa.int64())])).to_table()
    return sorted(table["offset"].to_pylist())


def offsets(root: Path) -> list[int]:
    """Return the offsets that `read_landing` would see."""
    live = DataFiles(LocalStore(root)).live()
    return sorted(n for _, name in live for n in pq.read_table(root / name)["offset"].to_pylist())


def after_each_fault(
    landed: Path, tmp_path: Path, inject: Callable[[Disk, int], None]
) -> Iterator[tuple[int, str, Path]]:
    """Yield directories whose compaction met the fault at its first call, its second ... until it has no more calls."""
    for call in range(1, MOST_CALLS):
        root, disk = tmp_path / str(call), Disk()
        shutil.copytree(landed, root)
        inject(disk, call)
        compacted = None
        with pytest.MonkeyPatch.context() as patched:
            disk.install_all(patched)
            with suppress(OSError):
                compacted = compact(LocalStore(root), 10**6)
        if len(disk.calls) < call:
            return
        assert compacted != Compacted(None), f"{disk.calls[call - 1]}: reported that there is nothing to do"
        yield call, disk.calls[call - 1], root
        shutil.rmtree(root)
    raise AssertionError("a compaction makes too many calls")


def check_and_repair(call: int, name: str, root: Path) -> None:
    step = f"call {call}, {name}"
    assert offsets(root) == ROWS, step
    seen = plain_offsets(root)
    assert set(seen) <= set(ROWS), step
    assert len(seen) == len(set(seen)), f"{step}: duplicate rows"
    REPAIRS[call % len(REPAIRS)](root)
    assert plain_offsets(root) == offsets(root) == ROWS, f"{step}, after {REPAIRS[call % len(REPAIRS)]}"
    compact(LocalStore(root), 10**6)
    assert plain_offsets(root) == offsets(root) == ROWS, step
    assert len(list(root.glob("*.parquet"))) == 1, step


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=errno.errorcode.get)
def test_fault_52_any_failing_call_of_compaction_loses_no_row(code: int, landed: Path, tmp_path: Path) -> None:
    failed = set()
    for call, name, root in after_each_fault(landed, tmp_path, lambda disk, call: disk.fail_at(call, code)):
        check_and_repair(call, name, root)
        failed.add(name)
    assert failed >= EACH_KIND


def test_fault_52_full_disk_in_a_compaction_loses_no_row(landed: Path, tmp_path: Path) -> None:
    for call, name, root in after_each_fault(
        landed, tmp_path, lambda disk, call: disk.fill_at(call, until=lambda: False)
    ):
        check_and_repair(call, name, root)
