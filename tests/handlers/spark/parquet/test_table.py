from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sarameya import ConfigError, HandlerError
from sarameya.service.cli import main
from sarameya_handlers import LandingError, Layout, ParquetTable
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.directory.data_files import DataFiles, directory_of
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.parquet.file_writer import settle
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Leftover, Phase
from tests.handlers.spark.kit import FakeFrame, FakeSpark

PLAIN = Shaping()
SAME = Shaping(transform=lambda frame: frame)
ROWS = pa.table({"offset": [5, 6, 7]})
KEY = ChainKey("sarameya", "orders", 3)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    table = ParquetTable(tmp_path / "landing" / "orders")
    table.open(None)
    return table


def link(number: int = 1, attempt: str = "a1", *, key: ChainKey = KEY, **more: Any) -> Link:
    fields = {"from_offset": 5, "to_offset": 8, "rows": -1, "origin": Origin(group="flights"), **more}
    return Link(key=key, number=number, attempt=attempt, **fields)


def staged(table: ParquetTable, of: Link, rows: pa.Table = ROWS) -> Landing:
    path = table.staging.directory / f"{of.attempt}.parquet"
    pq.write_table(rows, path)
    return Landing(link=of, staged=StagedFile(path), records=rows.num_rows)


def land(
    table: ParquetTable,
    of: Link,
    *,
    shape: Shaping = PLAIN,
    checkpoint: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
    rows: pa.Table = ROWS,
) -> None:
    table.land(FakeSpark(), [staged(table, of, rows)], shape, checkpoint)


def heads(table: ParquetTable) -> dict[ChainKey, tuple[int, str, int]]:
    return {key: (head.number, head.attempt, head.rows) for key, head in table.heads(None, [KEY]).items()}


def visible(table: ParquetTable) -> list[str]:
    return sorted(path.name for path in table.path.iterdir() if path.name != "_sarameya")


def hidden(table: ParquetTable) -> list[str]:
    """Return the files of writes without a link."""
    places = (table.staging.directory, table.path / "_sarameya" / "landing")
    return [path.name for place in places for path in place.rglob("*")]


NAME = "part-orders-3-00000000000000000005-00000000000000000008-a1.parquet"
SECOND = link(2, "a2", from_offset=8, to_offset=11)


@pytest.mark.parametrize("shape", [PLAIN, SAME], ids=["adopted", "written"])
def test_link_publishes_one_file_with_its_name(table: ParquetTable, shape: Shaping) -> None:
    land(table, link(), shape=shape)
    assert visible(table) == [NAME]
    assert pq.read_table(table.path).equals(ROWS)
    assert [found.rows for found in table.links(None, KEY, 1)] == [3]
    assert heads(table) == {KEY: (1, "a1", 3)}
    assert table.keys(None) == [KEY]


def test_second_attempt_of_a_link_leaves_nothing(table: ParquetTable) -> None:
    for attempt in ("a1", "a2"):
        land(table, link(attempt=attempt))
    assert visible(table) == [NAME]
    assert [found.attempt for found in table.links(None, KEY, 1)] == ["a1"]
    assert "a2" not in hidden(table)


def test_chains_do_not_interfere(table: ParquetTable) -> None:
    keys = [KEY, ChainKey("sarameya", "orders", 4), ChainKey("other", "orders", 3)]
    for key in keys:
        land(table, link(attempt=f"a{key}".replace("/", "-"), key=key))
    assert sorted(table.heads(None, keys)) == sorted(keys)
    assert len(visible(table)) == 3


def test_batch_without_remaining_rows_makes_an_empty_link(table: ParquetTable) -> None:
    land(table, link(), shape=Shaping(transform=lambda frame: FakeFrame(frame.table.slice(0, 0))))
    assert visible(table) == []
    assert [(found.rows, found.to_offset) for found in table.links(None, KEY, 1)] == [(0, 8)]


def test_gap_is_a_link_without_files(table: ParquetTable) -> None:
    gap = link(kind=Kind.GAP, reason="retention", rows=0)
    table.land(None, [Landing(link=gap, staged=None)], SAME, lambda phase, landings: None)
    assert heads(table) == {KEY: (1, "a1", 0)}
    assert visible(table) == []


def test_abandoned_write_leaves_nothing(table: ParquetTable) -> None:
    class Abandoned(Exception):
        pass

    def checkpoint(phase: Phase, landings: Sequence[Landing]) -> None:
        raise Abandoned

    with pytest.raises(Abandoned):
        land(table, link(), checkpoint=checkpoint)
    assert (visible(table), table.heads(None, [KEY])) == ([], {})
    assert hidden(table) == []


def test_failed_write_leaves_nothing(table: ParquetTable) -> None:
    class Failing(FakeFrame):
        def parquet(self, path: str) -> None:
            super().parquet(path)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        land(table, link(), shape=Shaping(transform=lambda frame: Failing(frame.table)))
    assert visible(table) == []
    assert "a1" not in hidden(table)


def test_missing_rows_are_detected_before_the_link(table: ParquetTable) -> None:
    landing = attrs.evolve(staged(table, link()), records=4)
    with pytest.raises(LandingError, match=r"link 1 of sarameya/orders-3 \[5, 8\): 3 rows were written of 4 records"):
        table.land(FakeSpark(), [landing], PLAIN, lambda phase, landings: None)
    assert (visible(table), table.heads(None, [KEY])) == ([], {})


@pytest.mark.parametrize("method", ["heads", "links"])
def test_unpublished_link_is_published_by_the_next_reader(
    table: ParquetTable, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DataFiles, "publish_link", lambda self, manifest, **_: manifest)
    land(table, link())
    assert visible(table) == []
    monkeypatch.undo()
    assert table.heads(None, [KEY]) if method == "heads" else table.links(None, KEY, 1)
    assert visible(table) == [NAME]
    assert hidden(table) == []


def test_links_after_a_restore_of_the_directory_are_published(table: ParquetTable) -> None:
    land(table, link())
    backup = table.path.parent / "backup"
    shutil.copytree(table.path, backup)
    land(table, link(2, "a2", from_offset=8, to_offset=11))
    shutil.rmtree(table.path)
    backup.rename(table.path)
    table.open(None)
    land(table, link(2, "b2", from_offset=8, to_offset=11))
    assert (len(visible(table)), hidden(table)) == (2, [])


def test_longest_topic_name_fits_a_file_name(table: ParquetTable) -> None:
    land(table, link(key=ChainKey("sarameya", "t" * 249, 0)))
    assert len(visible(table)) == 1


def test_constructor_creates_no_files(tmp_path: Path) -> None:
    ParquetTable(tmp_path / "landing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("column", ["_day", ".day"])
def test_partition_column_hidden_from_readers_is_refused(tmp_path: Path, column: str) -> None:
    with pytest.raises(ConfigError, match="plain readers ignore such directories"):
        ParquetTable(tmp_path, layout=Layout(partition_by=("topic", column)))


def test_table_can_be_opened_twice(table: ParquetTable) -> None:
    table.open(None)
    assert visible(table) == []


def test_relative_path_is_resolved_on_construction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = ParquetTable("landing")
    monkeypatch.chdir("/")
    assert table.path == tmp_path / "landing"


def test_directory_creation_error_names_its_cause(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HandlerError, match=r"cannot land in .*/file/orders: Not a directory .*; choose a directory"):
        ParquetTable(tmp_path / "file" / "orders").open(None)


@pytest.mark.parametrize("call", ["tempfile.TemporaryFile", "os.link"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_unusable_directory_error_names_its_cause(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    # The tests may run as root, who can write to a directory with any mode.
    monkeypatch.setattr(call, failing(code))
    expected = rf"cannot land in .*/orders: {os.strerror(code)}; choose .* with hard links"
    with pytest.raises(HandlerError, match=expected):
        table.open(None)
    assert os.listdir(table.path) == ["_sarameya"]


@pytest.mark.parametrize("call", ["pathlib.Path.mkdir", "tempfile.TemporaryFile", "os.link"])
@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE], ids=errno.errorcode.get
)
def test_passing_disk_error_is_not_a_configuration_error(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """EROFS: the kernel mounts a disk with errors read-only, and a member that lands there already retries."""
    monkeypatch.setattr(call, failing(code))
    with pytest.raises(LandingError, match=f"cannot land in .*/orders: {os.strerror(code)}.*start again") as raised:
        table.open(None)
    assert raised.value.retriable


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_file_system_without_exclusive_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(file: str, name: str) -> None:
        """Copy the file, as a file system without hard links might."""
        Path(name).write_bytes(Path(file).read_bytes())

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(HandlerError, match=r"can be taken twice, so records would not land exactly once"):
        ParquetTable(tmp_path).open(None)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_leftovers_are_files_without_a_link(table: ParquetTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataFiles, "publish_link", lambda self, manifest, **_: manifest)
    land(table, link())
    monkeypatch.undo()
    (table.staging.directory / f"{'b' * 32}.parquet").write_bytes(b"12345")
    orphan = table.path / directory_of(link(attempt="b"))
    orphan.mkdir()
    (orphan / "part-0.parquet").write_bytes(b"1234567")
    (links_directory,) = (table.path / "_sarameya" / "links").glob("*/*/*")
    (links_directory / ".put-x").write_bytes(b"1")
    found = table.leftovers(None)
    sizes = {Path(one.name).name: one.size_bytes for one in found}
    assert sizes == {orphan.name: 7, f"{'b' * 32}.parquet": 5, ".put-x": 1}
    for one in found:
        table.remove(None, one)
        table.remove(None, one)
    assert table.leftovers(None) == []
    assert heads(table) == {KEY: (1, "a1", 3)}
    assert visible(table) == [NAME]


def test_only_leftovers_can_be_removed(table: ParquetTable) -> None:
    land(table, link())
    with pytest.raises(HandlerError, match="is no leftover of parquet:"):
        table.remove(None, Leftover(name=str(table.path / NAME), size_bytes=1, changed=0.0, what="a file"))
    assert visible(table) == [NAME]


def test_write_that_may_still_be_linked_is_kept(table: ParquetTable) -> None:
    def sweep(phase: Phase, landings: Sequence[Landing]) -> None:
        [written] = [one for one in table.leftovers(None) if "landing" in Path(one.name).parent.name]
        with pytest.raises(HandlerError, match="may still put link 1; sweep again once its partition has landed"):
            table.remove(None, written)

    land(table, link(), checkpoint=sweep)
    assert (offsets(table), table.leftovers(None)) == ([5, 6, 7], [])


def test_files_of_an_early_version_are_kept(table: ParquetTable) -> None:
    land(table, link())
    early = table.path / "_sarameya" / "landing" / "a9"
    early.mkdir()
    [leftover] = table.leftovers(None)
    with pytest.raises(HandlerError, match="an early version wrote it; remove it by hand"):
        table.remove(None, leftover)
    assert early.exists()


def test_files_of_an_unfinished_shared_job_are_removed(table: ParquetTable) -> None:
    together = table.path / "_sarameya" / "landing" / "a9-1-0-and-others"
    together.mkdir()
    [leftover] = table.leftovers(None)
    table.remove(None, leftover)
    assert not together.exists()


@pytest.mark.parametrize("sleeps_before", ["open", "link", "unlink"])
def test_write_asleep_in_its_put_is_swept_wholly_or_not_at_all(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch, sleeps_before: str
) -> None:
    """The sweep runs before the manifest is written, before it gets its name, or right after that."""
    land(table, link())
    real = getattr(os, sleeps_before)
    awake = False

    def asleep(*arguments: Any, **options: Any) -> Any:
        nonlocal awake
        if not awake and f"{os.sep}links{os.sep}" in str(arguments[0]):
            awake = True
            sweep = ["sweep", str(table.path), "--older-than", "0s", "--force", "--execute", "--quiet"]
            assert main(sweep) == 0
        return real(*arguments, **options)

    monkeypatch.setattr(os, sleeps_before, asleep)
    if sleeps_before == "link":
        with pytest.raises(LandingError, match="a sweep removed its manifest while its process slept"):
            land(table, SECOND)
    else:
        land(table, SECOND)
    assert awake
    monkeypatch.undo()
    is_landed = sleeps_before == "unlink"
    assert (table.links(None, KEY, 2)[0].attempt == "a2") == is_landed
    assert offsets(table) == (sorted([5, 6, 7] * 2) if is_landed else [5, 6, 7])
    assert len(visible(table)) == 1 + is_landed
    assert table.leftovers(None) == []


@pytest.mark.parametrize("answer", ["timed out", "exists"])
def test_manifest_appearing_late_keeps_its_files(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    land(table, link())
    late: list[tuple[bytes, str]] = []

    def link_later(file: str, name: str) -> None:
        """Delay the call like a slow server, which reports a taken name for a repeated request."""
        late.append((Path(file).read_bytes(), name))
        raise TimeoutError(errno.ETIMEDOUT, "timed out") if answer == "timed out" else FileExistsError

    with monkeypatch.context() as slow:
        slow.setattr(os, "link", link_later)
        with pytest.raises(UnansweredError):
            land(table, SECOND)
    assert heads(table)[KEY][0] == len(visible(table)) == 1
    [(manifest, name)] = late
    Path(name).write_bytes(manifest)
    assert heads(table) == {KEY: (2, "a2", 3)}
    assert len(visible(table)) == 2
    assert offsets(table) == [5, 5, 6, 6, 7, 7]


def test_write_without_a_response_that_lost_is_left_to_the_sweep(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(table, link())
    with monkeypatch.context() as silent:
        silent.setattr(os, "link", failing(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            land(table, SECOND)
    land(table, attrs.evolve(SECOND, attempt="a3"))
    [leftover] = table.leftovers(None)
    assert (leftover.name, leftover.what) == (
        str(table.path / directory_of(SECOND)),
        "data of a write that failed or lost",
    )
    table.remove(None, leftover)
    assert heads(table) == {KEY: (2, "a3", 3)}
    assert hidden(table) == []


def test_refused_manifest_leaves_nothing(table: ParquetTable, monkeypatch: pytest.MonkeyPatch) -> None:
    land(table, link())
    with monkeypatch.context() as full:
        full.setattr(os, "link", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            land(table, SECOND)
    assert hidden(table) == []


# -- without Spark -------------------------------------------------------------------------------


def offsets(table: ParquetTable) -> list[int]:
    return sorted(n for batch in table.batches(["topic", "offset"]) for n in batch.column("offset").to_pylist())


def test_batches_are_rows_of_links_and_other_visible_files(table: ParquetTable) -> None:
    assert offsets(table) == []
    land(table, link())
    assert offsets(table) == [5, 6, 7]
    pq.write_table(pa.table({"offset": [9], "other": ["x"]}), table.path / "mine.parquet")
    pq.write_table(ROWS, table.staging.directory / f"{'a' * 32}.parquet")
    assert offsets(table) == [5, 6, 7, 9]
    assert {tuple(batch.schema.names) for batch in table.batches(["topic", "offset"])} == {("offset",)}


def test_batches_count_a_file_once_before_and_after_publishing(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(DataFiles, "publish_link", lambda self, manifest, **_: manifest)
        land(table, link())
    assert visible(table) == []
    assert offsets(table) == [5, 6, 7]
    table.heads(None, [KEY])
    assert visible(table) == [NAME]
    assert offsets(table) == [5, 6, 7]


def test_batches_count_rows_once_after_an_unfinished_compaction(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(table, link())
    land(table, link(2, "a2"))
    with monkeypatch.context() as dying:
        dying.setattr("sarameya_handlers.landing.directory.compaction._finish", lambda *_: None)
        compact(LocalStore(table.path), 10**6)
    assert len(visible(table)) == 2, "the replaced file is still there"
    assert offsets(table) == [5, 5, 6, 6, 7, 7]
    DataFiles(LocalStore(table.path)).publish_all()
    assert offsets(table) == [5, 5, 6, 6, 7, 7]


def test_batches_raise_for_a_missing_file(table: ParquetTable) -> None:
    land(table, link())
    (table.path / NAME).unlink()
    with pytest.raises(FileNotFoundError, match=NAME):
        offsets(table)


def test_missing_table_has_no_chains_and_no_leftovers(tmp_path: Path) -> None:
    nothing = ParquetTable(tmp_path / "nothing")
    assert (nothing.keys(None), nothing.leftovers(None)) == ([], [])
    assert not nothing.path.exists()


def test_files_replaced_by_a_compaction_are_leftovers(table: ParquetTable) -> None:
    land(table, link())
    land(table, link(2, "a2", from_offset=8, to_offset=11))
    compact(LocalStore(table.path), 10**6)
    (leftover,) = table.leftovers(None)
    assert leftover.what == "files that compaction 1 has replaced"
    table.remove(None, leftover)
    assert table.leftovers(None) == []
    assert pq.read_table(table.path).num_rows == 6
    assert [found.number for found in table.links(None, KEY, 1)] == [1, 2]


@pytest.mark.parametrize("value", ["a.parquet", "a%2Fb%3Dc%25", "a b", "__HIVE_DEFAULT_PARTITION__", "x" * 250])
def test_fault_57_partition_of_any_name_is_written_and_read(tmp_path: Path, value: str) -> None:
    """Spark names the directory. A partition's directory is not taken for a file, even if it is named like one."""

    class OnePartitionTable(ParquetTable):
        def _write(self, spark: Any, landings: Sequence[Landing], shape: Any) -> Any:
            for landing in landings:
                into = self.store.path(directory_of(landing.link)) / f"v={value}"
                into.mkdir(parents=True)
                pq.write_table(pq.read_table(landing.staged.path), into / "part-0.parquet")
            return None, {each.link.attempt: settle(self._files, each, Layout()) for each in landings}

    table = OnePartitionTable(tmp_path / "table")
    table.open(None)
    land(table, link())
    land(table, SECOND)
    assert offsets(table) == [5, 5, 6, 6, 7, 7]
    by_value = ds.partitioning(pa.schema([("v", pa.string())]), flavor="hive")  # from nulls alone no type is inferred
    read = pq.read_table(table.path, partitioning=by_value)
    assert read["offset"].to_pylist() == [5, 6, 7, 5, 6, 7]
    decoded = None if value.startswith("__") else unquote(value)
    assert set(read["v"].to_pylist()) == {decoded}
    assert not list((table.path / "_sarameya" / "landing").iterdir())
