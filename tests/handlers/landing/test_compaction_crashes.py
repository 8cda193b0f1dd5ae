"""A compaction is killed at each of its steps. `verify` reports hidden rows, and each repair command restores them."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from sarameya.service.cli import main
from sarameya_handlers import ParquetTable
from sarameya_handlers.audit import is_proved, verify_table
from sarameya_handlers.audit.verify.findings import Code
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.directory.compaction_records import Compaction, Compactions
from sarameya_handlers.landing.directory.data_files import DataFiles, Unpublished
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.tables.table import Leftover
from tests.conformance.disk_faults import Died, Disk
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import land

pytestmark = pytest.mark.usefixtures("unsynced")

KEY = ChainKey("sarameya", "orders", 0)
ROWS = list(range(12))
MOST_CALLS = 200
REPAIRS = {
    "service start": lambda root: ParquetTable(root).open(None),
    "compact": lambda root: main(["compact", str(root), "--quiet"]),
    "sweep": lambda root: main(["sweep", str(root), "--older-than", "1d", "--execute", "--quiet"]),
}


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: only processes are killed here, not machines."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    """A directory with six links, of two rows each, in two partitions of the table."""
    root = tmp_path / "landed"
    table = ParquetTable(root)
    table.open(None)  # type: ignore[arg-type]
    land(table, *links_of(KEY, 2, 4, 6, 8, 10, 12))
    return root


def killed_at_each_step(landed: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield directories in which a compaction was killed before or after its first call, its second call ..."""
    for call in range(1, MOST_CALLS):
        for after in (False, True):
            root = tmp_path / f"killed-{call}-{after}"
            shutil.copytree(landed, root)
            disk = Disk()
            disk.die_at(call, after=after)
            with pytest.MonkeyPatch.context() as patched:
                disk.install(patched)
                try:
                    compact(LocalStore(root), 10**6)
                except Died:
                    pass
                else:
                    return
            yield f"{'after' if after else 'before'} call {call}, {disk.calls[call - 1]}", root
            shutil.rmtree(root)
    raise AssertionError("a compaction makes too many calls")


def plain_offsets(root: Path) -> list[int]:
    """Return the offsets that a reader of the plain directory sees."""
    table = pyarrow.dataset.dataset(root, format="parquet", schema=pa.schema([("offset", pa.int64())])).to_table()
    return sorted(table["offset"].to_pylist())


def offsets(root: Path) -> list[int]:
    """Return the offsets that `read_landing` would see."""
    live = DataFiles(LocalStore(root)).live()
    return sorted(n for _, name in live for n in pq.read_table(root / name)["offset"].to_pylist())


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_fault_65_killed_compaction_with_hidden_rows_is_unproved(
    landed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sarameya_handlers.audit.verify.fact_collection._POLL_SECONDS", 0.0)
    hidden = 0
    for step, root in killed_at_each_step(landed, tmp_path):
        before = tree(root)
        findings = verify_table(None, ParquetTable(root))
        assert tree(root) == before, f"{step}: verify changed the directory"
        assert offsets(root) == ROWS, step
        seen = plain_offsets(root)
        assert set(seen) <= set(ROWS)
        assert len(seen) == len(set(seen)), f"{step}: duplicate rows"
        if seen != ROWS:
            hidden += 1
            assert not is_proved(findings), step
            [finding] = [finding for finding in findings if finding.code is Code.ROWS_UNPUBLISHED]
            assert f"sarameya sweep parquet:{root} --older-than 1d --execute" in finding.remedy
    assert hidden > 0


@pytest.mark.parametrize("repair", REPAIRS)
def test_fault_65_killed_compaction_is_repaired(repair: str, landed: Path, tmp_path: Path) -> None:
    for step, root in killed_at_each_step(landed, tmp_path):
        REPAIRS[repair](root)
        assert plain_offsets(root) == offsets(root) == ROWS, step
        assert is_proved(verify_table(None, ParquetTable(root))), step
        land(ParquetTable(root), *links_of(KEY, 2, 4, 6, 8, 10, 12, 15)[-1:])
        compact(LocalStore(root), 10**6)
        assert plain_offsets(root) == offsets(root) == list(range(15)), step


def test_fault_65_killed_repair_is_repaired_by_the_next(landed: Path, tmp_path: Path) -> None:
    for step, root in killed_at_each_step(landed, tmp_path):
        for call in range(1, MOST_CALLS):
            disk = Disk()
            disk.die_at(call, after=False)
            with pytest.MonkeyPatch.context() as patched:
                disk.install(patched)
                try:
                    DataFiles(LocalStore(root)).publish_all()
                except Died:
                    continue
            break
        assert plain_offsets(root) == offsets(root) == ROWS, step


def test_fault_65_sweep_during_a_compaction_loses_no_row(landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forced sweep removes the files of a compaction right before its record is written."""
    put = Compactions.put

    def put_after_a_sweep(compactions: Compactions, compaction: Compaction) -> bool:
        monkeypatch.setattr(Compactions, "put", put)
        assert main(["sweep", str(landed), "--older-than", "0s", "--force", "--execute", "--quiet"]) == 0
        return put(compactions, compaction)

    monkeypatch.setattr(Compactions, "put", put_after_a_sweep)
    assert not compact(LocalStore(landed), 10**6).was_first
    assert plain_offsets(landed) == offsets(landed) == ROWS
    assert compact(LocalStore(landed), 10**6).compaction is not None
    assert plain_offsets(landed) == offsets(landed) == ROWS


def test_leftover_of_a_compaction_put_meanwhile_is_kept(landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ParquetTable(landed)
    found: list[Leftover] = []

    def list_before(files: DataFiles, attempt: str, number: int) -> None:
        found.extend(leftover for leftover in listed if attempt in leftover.name)

    def put_after_listing(compactions: Compactions, compaction: Compaction) -> bool:
        listed.extend(table.leftovers(None))  # type: ignore[arg-type]
        return put(compactions, compaction)

    put, listed = Compactions.put, list[Leftover]()
    with monkeypatch.context() as patched:
        patched.setattr(Compactions, "put", put_after_listing)
        patched.setattr("sarameya_handlers.landing.directory.compaction._finish", list_before)
        compact(LocalStore(landed), 10**6)
    [leftover] = found
    assert leftover.what == "data of a compaction that failed or lost"
    table.remove(None, leftover)  # type: ignore[arg-type]
    table.open(None)
    assert plain_offsets(landed) == offsets(landed) == ROWS


def test_verify_reports_an_unpublished_link_without_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarameya_handlers.audit.verify.fact_collection._POLL_SECONDS", 0.0)
    table = ParquetTable(tmp_path)
    table.open(None)
    with monkeypatch.context() as dying:
        dying.setattr(DataFiles, "publish_link", lambda self, manifest, **_: manifest)
        land(table, *links_of(KEY, 2))
    before = tree(tmp_path)
    findings = verify_table(None, ParquetTable(tmp_path))
    assert [finding.code for finding in findings if finding.prevents_proof] == [Code.ROWS_UNPUBLISHED]
    assert "link 1 of sarameya/orders-0 [0, 2) is not finished" in findings[0].text
    assert tree(tmp_path) == before
    assert plain_offsets(tmp_path) == []
    assert table.heads(None, [KEY])  # type: ignore[arg-type]
    assert plain_offsets(tmp_path) == [0, 1]


def test_verify_waits_for_an_ongoing_publish(landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [[Unpublished("link 7", 1)]] * 3 + [[]]
    monkeypatch.setattr(ParquetTable, "unpublished", lambda *_: results.pop(0))
    assert is_proved(verify_table(None, ParquetTable(landed)))


def compact_and_be_killed(root: Path, renames: int) -> None:
    """Compact in this process, and kill it before call number `renames` of rename, counted from 0."""
    rename, left = os.rename, renames

    def rename_or_die(*args: Any, **kwargs: Any) -> None:
        nonlocal left
        if (left := left - 1) < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(*args, **kwargs)

    os.rename = rename_or_die
    while True:
        compact(LocalStore(root), 10**6)


def compact_often(root: Path, times: int) -> None:
    for _ in range(times):
        compact(LocalStore(root), 10**6)


def test_fault_65_concurrent_killed_compactions_lose_no_row(landed: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    live = [spawn.Process(target=compact_often, args=[landed, 15]) for _ in range(2)]
    killed = [spawn.Process(target=compact_and_be_killed, args=[landed, renames]) for renames in (1, 4, 9)]
    for process in (*live, *killed):
        process.start()
    table, ends = ParquetTable(landed), [2, 4, 6, 8, 10, 12]
    while any(process.is_alive() for process in (*live, *killed)):
        ends.append(ends[-1] + 2)
        land(table, links_of(KEY, *ends)[-1])
        ParquetTable(landed).open(None)
    for process in (*live, *killed):
        process.join()
    assert [process.exitcode for process in live] == [0, 0]
    assert [process.exitcode for process in killed] == [-signal.SIGKILL] * len(killed)
    assert main(["sweep", str(landed), "--older-than", "1d", "--execute", "--quiet"]) == 0
    assert plain_offsets(landed) == offsets(landed) == list(range(ends[-1]))
    assert is_proved(verify_table(None, table))
    assert any(compaction.files for compaction in DataFiles(LocalStore(landed)).compactions.all())
