"""Each call to the file system fails in turn, in every landing of a chain; then the landing is retried."""

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
from tests.conformance.disks import Disk
from tests.conformance.owners import KEY, Owner
from tests.conformance.proof import prove_audit

pytestmark = pytest.mark.usefixtures("unsynced")

LINKS = 40
RECORDS = 3
OTHER_CODES = (errno.EDQUOT, errno.EMFILE, errno.EIO)
MOST_CALLS = 200


class InPartitions(ParquetTable):
    """Writes what Spark would write where the table is partitioned by the value: two files a landing."""

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


def failing_in_turn(code: int, links: range, directory: Path, made: Callable[[Path], ParquetTable]) -> Iterator[int]:
    """Chains in which the first, second, third ... call of each of these landings fails, until none has so many."""
    before = directory / "before"
    land_before(before, links.start, made)
    for call in range(1, MOST_CALLS):
        shutil.copytree(before, directory / str(call))
        table = made(directory / str(call))
        table.prepare()
        owner, is_reached = Owner(table, None, Shaping()), False
        for number in links:
            disk = Disk()
            disk.fail_at(call, code)
            try_to_land(owner, number, disk)
            is_reached |= len(disk.calls) >= call
        proves(table, links.stop - 1)
        yield call
        if not is_reached:
            return


def land_before(directory: Path, number: int, made: Callable[[Path], ParquetTable]) -> None:
    """Append the links before this one."""
    table = made(directory)
    table.open(None)  # type: ignore[arg-type]
    owner = Owner(table, None, Shaping())
    for _ in range(1, number):
        assert owner.append(RECORDS).outcome is Outcome.LANDED, owner.error


def try_to_land(owner: Owner, number: int, disk: Disk) -> None:
    """Land with a fault; if it prevents the landing, land again without."""
    link = owner.propose(RECORDS)
    try:
        with pytest.MonkeyPatch.context() as patched:
            disk.install_all(patched)
            owner.land(link)
    except OSError:
        pass
    finally:
        name = disk.calls[-1] if disk.calls else "none"
    nothing_linked_is_gone(owner)
    settled = owner.settle(link)
    if settled.outcome is Outcome.ABSENT:
        settled = owner.append(RECORDS)
    assert settled.outcome is Outcome.LANDED, f"link {number}, at {name}: {owner.error!r}"
    assert owner.chain.head is not None
    assert owner.chain.head.number == number


def nothing_linked_is_gone(owner: Owner) -> None:
    """Check that the file of each link exists, in its final place or on the way to it."""
    root = owner._table.path  # type: ignore[attr-defined]
    for manifest in Manifests(LocalStore(root)).since(KEY, owner.chain.next_number):
        for file in manifest.files:
            hidden = root / file.written
            assert hidden.exists() or (root / file.name).exists(), f"{manifest.link}: {file.name} was deleted"


def proves(table: ParquetTable, count: int) -> None:
    rows = ds.dataset(table.path, format="parquet", partitioning="hive").to_table(columns=["offset"])
    times = Counter(rows["offset"].to_pylist())
    assert times == dict.fromkeys(range(count * RECORDS), 1)
    links = list(table.links(None, KEY, 1))  # type: ignore[arg-type]
    check_chain(links)
    assert [link.number for link in links] == list(range(1, count + 1))
    assert (links[0].from_offset, links[-1].to_offset) == (0, count * RECORDS)
    prove_audit(table, None)


def test_fault_51_any_call_that_fails_costs_no_linked_row(tmp_path: Path) -> None:
    calls = [*failing_in_turn(errno.ENOSPC, range(1, LINKS + 1), tmp_path, ParquetTable)]
    assert 40 < len(calls) < MOST_CALLS, "every call has failed once in each landing"


@pytest.mark.parametrize("code", OTHER_CODES, ids=errno.errorcode.get)
def test_fault_51_error_of_any_kind_costs_no_linked_row(code: int, tmp_path: Path) -> None:
    calls = [*failing_in_turn(code, range(15, 19), tmp_path, ParquetTable)]
    assert 20 < len(calls) < MOST_CALLS


def test_fault_51_any_failing_call_costs_no_partitioned_row(tmp_path: Path) -> None:
    """A link may have one published file, and another one that is not."""
    calls = [*failing_in_turn(errno.EIO, range(1, 4), tmp_path, InPartitions)]
    assert 50 < len(calls) < MOST_CALLS


@pytest.mark.parametrize("number", [15, 16, 17])
def test_fault_51_disk_that_is_full_from_any_call_on_is_survived(number: int, tmp_path: Path) -> None:
    """The disk stays full for three attempts, and while their outcome is looked up, which is waited for."""
    land_before(tmp_path / "before", number, ParquetTable)
    for call in range(1, MOST_CALLS):
        shutil.copytree(tmp_path / "before", tmp_path / str(call))
        table, disk, has_room = ParquetTable(tmp_path / str(call)), Disk(), Event()
        table.prepare()
        owner = Owner(table, None, Shaping())
        disk.fill_at(call, until=has_room.is_set)
        with pytest.MonkeyPatch.context() as patched:
            disk.install_all(patched)
            tries: list[Outcome] = []
            with suppress(OSError):
                tries += (owner.append(RECORDS).outcome for _ in range(3))
        nothing_linked_is_gone(owner)
        has_room.set()
        if owner.unsettled is not None:
            owner.settle(owner.unsettled)
        while owner.chain.next_number <= number + 2:
            assert owner.append(RECORDS).outcome is Outcome.LANDED, owner.error
        proves(table, number + 2)
        if tries == [Outcome.LANDED] * 3:
            return
    raise AssertionError("no disk that is full so late has kept anything from landing")
