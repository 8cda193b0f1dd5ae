"""Leftovers are files that no commit names. Only leftovers can be removed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sarameya import HandlerError
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.leftovers import leftovers, remove
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Leftover

STAGED = f"{'0' * 32}.parquet"


def commit(root: Path, version: int, *actions: dict[str, object]) -> None:
    log = root / "_delta_log"
    log.mkdir(exist_ok=True, parents=True)
    lines = [json.dumps(action, separators=(",", ":")) for action in ({"commitInfo": {}}, *actions)]
    (log / f"{version:020d}.json").write_text("\n".join(lines))


def staging_of(root: Path) -> Staging:
    return Staging(root / "_sarameya" / "staging")


def listed(root: Path) -> list[Leftover]:
    return leftovers(LocalStore(root), list, staging_of(root))


def names(root: Path, current: list[str]) -> list[str]:
    found = leftovers(LocalStore(root), lambda: current, staging_of(root))
    return [str(Path(one.name).relative_to(root)) for one in found]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with files of all kinds."""
    for name in (
        "part-added.parquet", "part-removed.parquet", "part-current.parquet", "part-lost.parquet", "other.parquet",
        "day=a b/part-spaced.parquet", "day=a b/part-lost-too.parquet", "_day=1/part-lost-there.parquet",
        "at=2026-11-22 10%3A00%3A00/part-timed.parquet", "at=2026-11-22 10%3A00%3A00/part-timed-now.parquet",
        "_change_data/part-cdc.parquet", "deletion_vector_1.bin", "_delta_log/part-x.parquet",
        f"_sarameya/staging/{STAGED}", "_sarameya/staging/README",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"data")
    commit(tmp_path, 0, {"add": {"path": "part-added.parquet", "size": 4}}, {"txn": {"appId": "x", "version": 1}})
    escaped = ("day=a%20b/part-spaced.parquet", "at=2026-11-22%2010%253A00%253A00/part-timed.parquet")
    commit(tmp_path, 1, {"remove": {"path": "part-removed.parquet"}}, *({"add": {"path": path}} for path in escaped))
    return tmp_path


def test_leftovers_are_files_without_a_commit(root: Path) -> None:
    # As Delta returns them to Spark: without the escapes of the log, but with those of directory names.
    current = [f"file:{root}/part-current.parquet", f"file:{root}/at=2026-11-22 10%3A00%3A00/part-timed-now.parquet"]
    assert names(root, current) == [
        f"_sarameya/staging/{STAGED}",
        "_day=1/part-lost-there.parquet",
        "day=a b/part-lost-too.parquet",
        "part-lost.parquet",
    ]


def test_file_committed_during_the_search_is_no_leftover(root: Path) -> None:
    def current() -> list[str]:
        commit(root, 2, {"add": {"path": "part-lost.parquet"}})
        return []

    found = {Path(one.name).name for one in leftovers(LocalStore(root), current, staging_of(root))}
    assert found == {
        STAGED,
        "part-lost-too.parquet",
        "part-lost-there.parquet",
        "part-current.parquet",
        "part-timed-now.parquet",
    }
    remaining = [one.name for one in leftovers(LocalStore(root), current, staging_of(root))]
    assert str(root / "part-lost.parquet") not in remaining


def test_uncommitted_write_is_one_leftover(root: Path) -> None:
    written = root / "_sarameya" / "landing" / ("1" * 32)
    written.mkdir(parents=True)
    for name in ("part-0.parquet", "_SUCCESS"):
        (written / name).write_bytes(b"data")
    found = next(one for one in leftovers(LocalStore(root), list, staging_of(root)) if one.name == str(written))
    assert (found.what, found.size_bytes) == ("data of a write that failed or lost", 8)
    assert found.others_may_take == 0.0
    remove(found, LocalStore(root), None)
    assert not written.exists()
    remove(found, LocalStore(root), None)

    written.touch()  # as a probe does
    remove(found, LocalStore(root), None)
    assert not written.exists()


def test_removal_error_is_raised(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = root / "_sarameya" / "landing" / ("1" * 32)
    (written / "below").mkdir(parents=True)
    found = next(one for one in leftovers(LocalStore(root), list, staging_of(root)) if one.name == str(written))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("somebody else's")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(PermissionError):
        remove(found, LocalStore(root), None)


def test_leftover_has_its_size_and_age(root: Path) -> None:
    found = leftovers(LocalStore(root), list, staging_of(root))
    assert {(one.what, one.size_bytes) for one in found} == {
        ("a staged file", 4),
        ("a data file that no version of the table names", 4),
    }
    assert all(abs(one.changed - root.stat().st_mtime) < 60 for one in found)
    # A sweep ensures that nobody commits a staged file. It does not know the writer of a data file.
    assert {(one.what, one.others_may_take) for one in found} == {
        ("a staged file", 0.0),
        ("a data file that no version of the table names", 24 * 3600.0),
    }


def test_leftover_can_be_removed_twice(root: Path) -> None:
    (root / ".part-lost.parquet.crc").write_text("")
    staging = staging_of(root)
    for leftover in leftovers(LocalStore(root), list, staging) * 2:
        remove(leftover, LocalStore(root), staging)
    assert leftovers(LocalStore(root), list, staging) == []
    assert not (root / ".part-lost.parquet.crc").exists()
    assert (root / "part-added.parquet").exists()


@pytest.mark.parametrize("name", ["_delta_log/00000000000000000000.json", "other.parquet", "../part-1.parquet"])
def test_only_leftovers_can_be_removed(root: Path, name: str) -> None:
    path = (root / name).resolve()
    path.touch()
    with pytest.raises(HandlerError, match="no leftover"):
        remove(Leftover(name=str(path), size_bytes=0, changed=0.0, what=""), LocalStore(root), staging_of(root))
    assert path.exists()


def test_unfinished_summary_is_a_leftover(root: Path) -> None:
    unfinished = root / "_sarameya" / ".put-0123"
    unfinished.write_text("{}")
    (root / "_sarameya" / "heads.json").write_text("{}")
    (found,) = (one for one in leftovers(LocalStore(root), list, staging_of(root)) if "summary" in one.what)
    assert found.name == str(unfinished)
    remove(found, LocalStore(root), staging_of(root))
    assert not unfinished.exists()
