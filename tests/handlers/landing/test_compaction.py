from __future__ import annotations

import errno
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya_handlers.landing.directory import compaction as compacting
from sarameya_handlers.landing.directory.compaction import SMALL, Compacted, compact, plan, small_files
from sarameya_handlers.landing.directory.data_files import WRITING, DataFiles, directory_of
from sarameya_handlers.landing.directory.manifests import DataFile, Manifest
from sarameya_handlers.landing.directory.parquet_merge import FileSchema
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.local import LocalStore

KEY = ChainKey("sarameya", "orders", 0)


def append(
    root: Path,
    rows: Sequence[int],
    *,
    where: str = ".",
    publish: bool = True,
    schema: pa.Schema | None = None,
    **columns: object,
) -> None:
    """Append the next link, with these rows as its offsets."""
    files = DataFiles(LocalStore(root))
    head = files.manifests.head(KEY)
    number, begin = (head.link.number + 1, head.link.to_offset) if head else (1, 0)
    link = Link(
        key=KEY,
        number=number,
        from_offset=begin,
        to_offset=begin + len(rows),
        attempt=uuid4().hex,
        origin=Origin(group="flights"),
    )
    directory = root / directory_of(link) / where
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"offset": rows, **columns}, schema=schema), directory / "x.parquet")
    written = files.settle(link, lambda n: f"part-{number}-{n}.parquet", lambda name: len(rows))
    manifest = Manifest(link, written)
    assert files.manifests.put(manifest)
    if publish:
        files.publish_link(manifest)


def offsets(root: Path) -> list[int]:
    """Return the offsets that `read_landing` would see."""
    live = DataFiles(LocalStore(root)).live()
    return sorted(n for _, name in live for n in pq.read_table(root / name)["offset"].to_pylist())


def plain_offsets(root: Path) -> list[int]:
    """Return the offsets that a reader of the plain directory sees."""
    return sorted(pyarrow.dataset.dataset(root, format="parquet").to_table()["offset"].to_pylist())


def visible(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_sarameya" not in path.parts)


def test_small_files_become_one_without_losing_rows(tmp_path: Path) -> None:
    for n in range(10):
        append(tmp_path, range(5 * n, 5 * n + 5))
    progress: list[tuple[int, int]] = []
    done = compact(LocalStore(tmp_path), 10**6, written=lambda rows, of: progress.append((rows, of)))
    assert done.compaction is not None
    assert progress == [(0, 50), (50, 50)]
    assert len(visible(tmp_path)) == 1
    assert offsets(tmp_path) == plain_offsets(tmp_path) == list(range(50))


def test_compaction_keeps_the_chain_and_new_links_follow(tmp_path: Path) -> None:
    for n in range(3):
        append(tmp_path, [n])
    before = [manifest.link for manifest in DataFiles(LocalStore(tmp_path)).manifests.since(KEY, 1)]
    compact(LocalStore(tmp_path), 10**6)
    append(tmp_path, [3])
    assert [manifest.link for manifest in DataFiles(LocalStore(tmp_path)).manifests.since(KEY, 1)][:3] == before
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1, 2, 3]


def test_second_compaction_merges_the_file_of_the_first(tmp_path: Path) -> None:
    for n in range(6):
        append(tmp_path, [n])
        compact(LocalStore(tmp_path), 10**6)
    assert [c.number for c in DataFiles(LocalStore(tmp_path)).compactions.all()] == [1, 2, 3, 4, 5]
    assert len(visible(tmp_path)) == 1
    assert offsets(tmp_path) == plain_offsets(tmp_path) == list(range(6))


def test_compaction_of_a_single_file_does_nothing(tmp_path: Path) -> None:
    append(tmp_path, [0])
    assert compact(LocalStore(tmp_path), 10**6) == Compacted(None)
    assert list(DataFiles(LocalStore(tmp_path)).compactions.all()) == []


def test_files_of_different_table_partitions_stay_apart(tmp_path: Path) -> None:
    for n in range(6):
        append(tmp_path, [n], where=f"day={n % 2}")
    compact(LocalStore(tmp_path), 10**6)
    assert [Path(name).parent.name for name in visible(tmp_path)] == ["day=0", "day=1"]
    assert offsets(tmp_path) == list(range(6))


def test_missing_columns_of_older_files_become_null(tmp_path: Path) -> None:
    append(tmp_path, [0, 1])
    append(tmp_path, [2], name=["x"])
    compact(LocalStore(tmp_path), 10**6)
    (file,) = visible(tmp_path)
    assert pq.read_table(tmp_path / file).to_pydict() == {"offset": [0, 1, 2], "name": [None, None, "x"]}


def test_required_columns_of_newer_files_become_nullable(tmp_path: Path) -> None:
    append(tmp_path, [0])
    strict = pa.schema([pa.field("offset", pa.int64()), pa.field("name", pa.string(), nullable=False)])
    append(tmp_path, [1], schema=strict, name=["x"])
    compact(LocalStore(tmp_path), 10**6)
    (file,) = visible(tmp_path)
    assert pq.read_table(tmp_path / file).to_pydict() == {"offset": [0, 1], "name": [None, "x"]}


def test_files_with_different_column_types_stay_apart(tmp_path: Path) -> None:
    for at in ({"x": 1}, {"x": 1, "y": 2}, "text"):
        for _ in range(2):
            append(tmp_path, [len(offsets(tmp_path))], at=[at])
    append(tmp_path, [6])
    compact(LocalStore(tmp_path), 10**6)
    made = [pq.read_table(tmp_path / file).to_pylist() for file in visible(tmp_path)]
    rows = [[row["at"] for row in one] for one in made]
    assert sorted(rows, key=str) == sorted([[{"x": 1}] * 2 + [None], [{"x": 1, "y": 2}] * 2, ["text"] * 2], key=str)
    assert offsets(tmp_path) == list(range(7))
    assert compact(LocalStore(tmp_path), 10**6) == Compacted(None)


def test_files_with_different_nullability_are_merged(tmp_path: Path) -> None:
    for strict in (True, False):
        x = pa.struct([pa.field("x", pa.int64(), nullable=not strict)])
        kind = pa.struct([("xs", pa.list_(x)), ("m", pa.map_(pa.string(), x))])
        value = {"xs": [{"x": 1}], "m": [("k", {"x": 1 if strict else None})]}
        schema = pa.schema([pa.field("offset", pa.int64(), nullable=not strict), pa.field("at", kind)])
        append(tmp_path, [int(strict)], schema=schema, at=[value])
    compact(LocalStore(tmp_path), 10**6)
    (file,) = visible(tmp_path)
    table = pq.read_table(tmp_path / file)
    assert table["offset"].to_pylist() == [1, 0]
    assert [at["m"] for at in table["at"].to_pylist()] == [[("k", {"x": 1})], [("k", {"x": None})]]


def test_file_with_metadata_is_not_merged_with_more_columns(tmp_path: Path) -> None:
    metadata = {b"org.apache.spark.sql.parquet.row.metadata": b"..."}
    with_metadata = pa.schema([("offset", pa.int64())], metadata=metadata)
    for _ in range(2):
        append(tmp_path, [0], schema=with_metadata)
    compact(LocalStore(tmp_path), 10**6)
    (file,) = visible(tmp_path)
    assert pq.read_metadata(tmp_path / file).metadata.items() >= metadata.items()
    append(tmp_path, [1], name=["x"])
    assert compact(LocalStore(tmp_path), 10**6) == Compacted(None)
    assert len(visible(tmp_path)) == 2


def test_unpublished_link_of_a_dead_process_is_compacted(tmp_path: Path) -> None:
    append(tmp_path, [0])
    append(tmp_path, [1], publish=False)
    compact(LocalStore(tmp_path), 10**6)
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1]


@pytest.mark.parametrize("published_by", ["another compaction", "publish_all"])
def test_unpublished_compaction_of_a_dead_process_is_published(
    tmp_path: Path, published_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, [0])
    append(tmp_path, [1])
    with monkeypatch.context() as dying:
        dying.setattr("sarameya_handlers.landing.directory.compaction._finish", lambda *_: None)
        compact(LocalStore(tmp_path), 10**6)
    assert offsets(tmp_path) == [0, 1]
    assert len(visible(tmp_path)) == 2
    if published_by == "another compaction":
        compact(LocalStore(tmp_path), 10**6)
    else:
        DataFiles(LocalStore(tmp_path)).publish_all()
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1]
    assert len(visible(tmp_path)) == 1


def test_link_appended_during_a_compaction_keeps_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link's process dies before publishing it. A later publish must not restore the replaced files."""

    def publish_all_then_land(files: DataFiles) -> None:
        publish_all(files)
        append(tmp_path, [2], publish=False)

    append(tmp_path, [0])
    append(tmp_path, [1])
    publish_all = DataFiles.publish_all
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(DataFiles, "publish_all", publish_all_then_land)
        compact(LocalStore(tmp_path), 10**6)
    DataFiles(LocalStore(tmp_path)).publish_all()
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1, 2]


def test_compaction_does_not_build_on_an_unpublished_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process sleeps between putting and publishing, while another process compacts the same files."""
    append(tmp_path, [0])
    append(tmp_path, [1])
    asleep: list[tuple[DataFiles, str, int]] = []

    def sleep(files: DataFiles, attempt: str, number: int) -> None:
        asleep.append((files, attempt, number))

    def publish_all_before_the_other_puts(files: DataFiles) -> None:
        publish_all(files)
        if not asleep:
            with monkeypatch.context() as other:
                other.setattr("sarameya_handlers.landing.directory.compaction._finish", sleep)
                other.setattr(DataFiles, "publish_all", publish_all)
                assert compact(LocalStore(tmp_path), 10**6).compaction is not None

    publish_all, finish = DataFiles.publish_all, compacting._finish
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(DataFiles, "publish_all", publish_all_before_the_other_puts)
        compact(LocalStore(tmp_path), 10**6)
    append(tmp_path, [2])
    compact(LocalStore(tmp_path), 10**6)
    finish(*asleep[0])
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1, 2]


def test_compaction_that_times_out_and_succeeds_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, [0])
    append(tmp_path, [1])
    late: list[tuple[bytes, str]] = []

    def link_later(file: str, name: str) -> None:
        late.append((Path(file).read_bytes(), name))
        raise TimeoutError(errno.ETIMEDOUT, "timed out")

    with monkeypatch.context() as slow:
        slow.setattr(os, "link", link_later)
        with pytest.raises(OSError, match="timed out"):
            compact(LocalStore(tmp_path), 10**6)
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1]
    [(compaction, name)] = late
    Path(name).write_bytes(compaction)
    assert offsets(tmp_path) == [0, 1]
    DataFiles(LocalStore(tmp_path)).publish_all()
    assert offsets(tmp_path) == plain_offsets(tmp_path) == [0, 1]
    assert len(visible(tmp_path)) == 1


def test_cancelled_compaction_leaves_no_files(tmp_path: Path) -> None:
    class Cancelled(Exception):
        pass

    append(tmp_path, [0])
    append(tmp_path, [1])
    for steps in range(20):
        left = steps

        def check() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cancelled

        try:
            compact(LocalStore(tmp_path), 10**6, check=check)
        except Cancelled:
            assert LocalStore(tmp_path).entries(WRITING) == []
            assert plain_offsets(tmp_path) == [0, 1]
        else:
            assert steps >= 3
            break
    assert len(visible(tmp_path)) == 1


def compact_often(root: Path, times: int) -> None:
    for _ in range(times):
        compact(LocalStore(root), 10**6)


def test_concurrent_compactions_and_landings_lose_nothing(tmp_path: Path) -> None:
    append(tmp_path, [0])
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=compact_often, args=[tmp_path, 20]) for _ in range(2)]
    for other in others:
        other.start()
    count = 1
    while any(other.is_alive() for other in others):
        append(tmp_path, [count])
        count += 1
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0, 0]
    DataFiles(LocalStore(tmp_path)).publish_all()
    assert offsets(tmp_path) == plain_offsets(tmp_path) == list(range(count))
    assert list(DataFiles(LocalStore(tmp_path)).compactions.all()) != []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300))), st.integers(1, 400))
def test_plan_groups_small_files_up_to_the_target_size(sizes: list[tuple[int, int]], wanted: int) -> None:
    files = [DataFile(f"d{where}/{n:03}", 1, size) for n, (where, size) in enumerate(sizes)]
    schema = FileSchema(pa.schema([]), {}, {}, "")
    groups = plan(small_files(files, wanted), wanted, dict.fromkeys(files, schema))
    planned = [file for group in groups for file in group]
    assert len(planned) == len(set(planned))
    for group in groups:
        assert len(group) > 1
        assert len({Path(file.name).parent for file in group}) == 1
        assert sum(file.size for file in group) <= wanted
    assert all(file.size < SMALL * wanted for file in planned)
