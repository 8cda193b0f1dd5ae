"""Each call to the file system fails in turn, in every landing of a chain; then the owner retries the landing."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.directory.data_files import directory_of
from sarameya_handlers.landing.directory.manifests import Manifests
from sarameya_handlers.landing.links import check_chain
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.parquet.file_writer import settle
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Layout
from tests.conformance.disk_faults import Disk
from tests.conformance.invariants import prove_audit
from tests.conformance.owners import KEY, Owner

pytestmark = [
    pytest.mark.usefixtures("unsynced"),
    pytest.mark.landing(what="store faults", table="Parquet", store="local disk", spark="none"),
]

LINKS = 40
RECORDS = 3
OTHER_CODES = (errno.EDQUOT, errno.EMFILE, errno.EIO)
MOST_CALLS = 200


class PartitionedTable(ParquetTable):
    """A table partitioned by a column: each landing writes two files, as Spark would."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, layout=Layout(partition_by=("half",)))

    def _write(self, spark: Any, landings: Sequence[Landing], shape: Any) -> Any:
        for landing in landings:
            rows = pq.read_table(landing.staged.path)
            for half in ("left", "right"):
                into = self.store.path(directory_of(landing.link)) / f"half={half}"
                into.mkdir(parents=True)
                is_right = pc.equal(pc.bit_wise_and(rows["offset"], 1), 1)
                pq.write_table(rows.filter(is_right if half == "right" else pc.invert(is_right)), into / "part.parquet")
        return None, {each.link.attempt: settle(self._files, each, self._layout) for each in landings}


def fail_each_call(
    code: int, links: range, directory: Path, create_table: Callable[[Path], ParquetTable]
) -> Iterator[int]:
    """Land chains in which the n-th call of each landing fails. Yield n = 1, 2, 3, …, until no landing has n calls."""
    before = directory / "before"
    land_before(before, links.start, create_table)
    for call in range(1, MOST_CALLS):
        shutil.copytree(before, directory / str(call))
        table = create_table(directory / str(call))
        table.prepare()
        owner, is_reached = Owner(table, None, Shaping()), False
        for number in links:
            disk = Disk()
            disk.fail_at(call, code)
            land_with_fault(owner, number, disk)
            is_reached |= len(disk.calls) >= call
        check_table(table, links.stop - 1)
        yield call
        if not is_reached:
            return


def land_before(directory: Path, number: int, create_table: Callable[[Path], ParquetTable]) -> None:
    """Append the links before link `number`."""
    table = create_table(directory)
    table.open(None)  # type: ignore[arg-type]
    owner = Owner(table, None, Shaping())
    for _ in range(1, number):
        assert owner.append(RECORDS).outcome is Outcome.LANDED, owner.error


def land_with_fault(owner: Owner, number: int, disk: Disk) -> None:
    """Land with a fault; if the link is absent afterwards, land again without a fault."""
    link = owner.propose(RECORDS)
    try:
        with pytest.MonkeyPatch.context() as patched:
            disk.install_all(patched)
            owner.land(link)
    except OSError:
        pass
    finally:
        name = disk.calls[-1] if disk.calls else "none"
    check_linked_files_exist(owner)
    settled = owner.settle(link)
    if settled.outcome is Outcome.ABSENT:
        settled = owner.append(RECORDS)
    assert settled.outcome is Outcome.LANDED, f"link {number}, at {name}: {owner.error!r}"
    assert owner.chain.head is not None
    assert owner.chain.head.number == number


def check_linked_files_exist(owner: Owner) -> None:
    """Check that the file of each link exists, in its final place or on the way to it."""
    root = owner._table.path  # type: ignore[attr-defined]
    for manifest in Manifests(LocalStore(root)).since(KEY, owner.chain.next_number):
        for file in manifest.files:
            hidden = root / file.written
            assert hidden.exists() or (root / file.name).exists(), f"{manifest.link}: {file.name} was deleted"


def check_table(table: ParquetTable, count: int) -> None:
    rows = ds.dataset(table.path, format="parquet", partitioning="hive").to_table(columns=["offset"])
    times = Counter(rows["offset"].to_pylist())
    assert times == dict.fromkeys(range(count * RECORDS), 1)
    links = list(table.links(None, KEY, 1))  # type: ignore[arg-type]
    check_chain(links)
    assert [link.number for link in links] == list(range(1, count + 1))
    assert (links[0].from_offset, links[-1].to_offset) == (0, count * RECORDS)
    prove_audit(table, None)


def test_fault_51_failure_of_any_call_loses_no_linked_row(tmp_path: Path) -> None:
    calls = [*fail_each_call(errno.ENOSPC, range(1, LINKS + 1), tmp_path, ParquetTable)]
    assert 40 < len(calls) < MOST_CALLS, "each call of each landing has failed once"


@pytest.mark.parametrize("code", OTHER_CODES, ids=errno.errorcode.get)
def test_fault_51_error_with_any_code_loses_no_linked_row(code: int, tmp_path: Path) -> None:
    calls = [*fail_each_call(code, range(15, 19), tmp_path, ParquetTable)]
    assert 20 < len(calls) < MOST_CALLS


def test_fault_51_failure_of_any_call_loses_no_partitioned_row(tmp_path: Path) -> None:
    """A call may fail after one file of a link was published, and before the other."""
    calls = [*fail_each_call(errno.EIO, range(1, 4), tmp_path, PartitionedTable)]
    assert 50 < len(calls) < MOST_CALLS


@pytest.mark.parametrize("number", [15, 16, 17])
def test_fault_51_disk_full_from_any_call_on_loses_nothing(number: int, tmp_path: Path) -> None:
    """The disk is full during three attempts and the reads of their outcomes; the next attempts land."""
    land_before(tmp_path / "before", number, ParquetTable)
    for call in range(1, MOST_CALLS):
        shutil.copytree(tmp_path / "before", tmp_path / str(call))
        table, disk, has_space = ParquetTable(tmp_path / str(call)), Disk(), Event()
        table.prepare()
        owner = Owner(table, None, Shaping())
        disk.fill_at(call, until=has_space.is_set)
        with pytest.MonkeyPatch.context() as patched:
            disk.install_all(patched)
            outcomes: list[Outcome] = []
            with suppress(OSError):
                outcomes += (owner.append(RECORDS).outcome for _ in range(3))
        check_linked_files_exist(owner)
        has_space.set()
        if owner.unsettled is not None:
            owner.settle(owner.unsettled)
        while owner.chain.next_number <= number + 2:
            assert owner.append(RECORDS).outcome is Outcome.LANDED, owner.error
        check_table(table, number + 2)
        if outcomes == [Outcome.LANDED] * 3:
            return
    raise AssertionError("a landing still fails at the last call that was tried")
