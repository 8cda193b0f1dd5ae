"""Delta history by SQL and by log files: read as far as needed, kept, and checked for staleness."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history.commits import DeltaCommit
from sarameya_handlers.spark.delta.history.log import DeltaLog
from tests.handlers.spark.delta.kit import KEY, FakeHistorySpark, History, write_log

NO_SPARK: Any = None


def history(count: int) -> History:
    """Return `count` commits; the newest 200 are links."""
    made = History()
    made.other(max(count - 200, 0))
    for number in range(1, count - made.newest):
        made.landed(number)
    return made


def versions(commits: list[DeltaCommit]) -> list[int]:
    return [commit.version for commit in commits]


def marks(commits: list[DeltaCommit]) -> list[object]:
    return [commit.mark and commit.mark.link.number for commit in commits]


def test_history_is_read_in_growing_pages_as_needed() -> None:
    spark = FakeHistorySpark(history(3000).commits)
    log = DeltaLog("t")
    assert versions(list(islice(log.commits(spark), 5))) == [2999, 2998, 2997, 2996, 2995]
    assert spark.limits == [64]
    assert versions(list(DeltaLog("t").commits(spark))) == list(range(2999, -1, -1))
    assert spark.limits == [64, 64, 1024, 16384]


def test_only_new_commits_are_read_again() -> None:
    made = history(3000)
    spark, log = FakeHistorySpark(made.commits), DeltaLog("t")
    list(log.commits(spark))
    made.other(3)
    spark.limits.clear()
    assert versions(list(log.commits(spark))) == list(range(3002, -1, -1))
    assert spark.limits == [64]


def test_read_continues_after_an_early_stop() -> None:
    made = history(300)
    spark, log = FakeHistorySpark(made.commits), DeltaLog("t")
    assert len(list(islice(log.commits(spark), 40))) == 40
    made.other(2)
    found = list(log.commits(spark))
    assert versions(found) == list(range(301, -1, -1))
    assert marks(found) == marks(made.commits)


def test_overlapping_pages_repeat_no_commit() -> None:
    made = history(200)
    spark = FakeHistorySpark(made.commits)
    found = []
    for commit in DeltaLog("t").commits(spark):
        found.append(commit.version)
        if commit.version == 150:
            made.other(5)
    assert found == list(range(199, -1, -1))


def test_history_ends_where_it_was_cleaned_up() -> None:
    made = history(300)
    del made.commits[-100:]
    assert versions(list(DeltaLog("t").commits(FakeHistorySpark(made.commits)))) == list(range(299, 99, -1))


@pytest.mark.parametrize("count", [1, 30, 130])
def test_recreated_table_is_read_again(count: int) -> None:
    spark, log = FakeHistorySpark(history(100).commits), DeltaLog("t")
    list(log.commits(spark))
    recreated = [attrs.evolve(commit, mark=None) for commit in history(count).commits]
    spark.commits = recreated
    assert marks(list(log.commits(spark))) == [None] * count


def test_missing_table_has_no_commits() -> None:
    spark = FakeHistorySpark([])
    spark.error = RuntimeError("[DELTA_TABLE_ONLY_OPERATION] `t` is not a Delta table.")
    assert list(DeltaLog("t").commits(spark)) == []
    spark.error = RuntimeError("[SOMETHING_ELSE] no")
    with pytest.raises(RuntimeError, match="SOMETHING_ELSE"):
        list(DeltaLog("t").commits(spark))


def test_log_files_equal_sql_history(tmp_path: Path) -> None:
    made = history(250)
    made.restored(200)
    write_log(tmp_path, made.commits)
    log = DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    by_files = list(log.commits(NO_SPARK))
    by_sql = list(DeltaLog("t").commits(FakeHistorySpark(made.commits)))
    assert [attrs.evolve(one, stamp="") for one in by_files] == [attrs.evolve(one, stamp="") for one in by_sql]
    assert by_files[0].restores == 200


def test_new_files_and_recreated_tables_are_noticed(tmp_path: Path) -> None:
    made = history(20)
    write_log(tmp_path, made.commits)
    log = DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    assert len(list(log.commits(NO_SPARK))) == 20
    made.landed(21)
    write_log(tmp_path, made.commits)
    assert marks(list(islice(log.commits(NO_SPARK), 2))) == [21, 20]
    for path in (tmp_path / "_delta_log").iterdir():
        path.unlink()
    assert list(log.commits(NO_SPARK)) == []
    write_log(tmp_path, [attrs.evolve(commit, mark=None) for commit in history(30).commits])
    assert marks(list(log.commits(NO_SPARK))) == [None] * 30


def test_newest_version_is_found_without_reading_commits(tmp_path: Path) -> None:
    made, log = history(20), DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    assert log.newest(NO_SPARK) == -1
    write_log(tmp_path, made.commits)
    (tmp_path / "_delta_log" / f"{18:020d}.json").write_text('{"commitInfo": torn')
    assert log.newest(NO_SPARK) == 19
    write_log(tmp_path, made.commits)
    made.landed(21)
    assert len(list(log.commits(NO_SPARK))) == 20
    write_log(tmp_path, made.commits)
    assert log.newest(NO_SPARK) == 20


def test_other_files_in_the_log_are_skipped(tmp_path: Path) -> None:
    write_log(tmp_path, history(3).commits)
    log = tmp_path / "_delta_log"
    for name in ("00000000000000000009.crc", "00000000000000000009.checkpoint.parquet", "_last_checkpoint", ".9.json"):
        (log / name).write_text("?")
    read = DeltaLog("t")
    read.read_from(LocalStore(tmp_path))
    assert versions(list(read.commits(NO_SPARK))) == [2, 1, 0]


def test_commit_info_is_optional_and_in_any_place(tmp_path: Path) -> None:
    made = History()
    made.landed(1)
    made.landed(2)
    write_log(tmp_path, made.commits)
    first, second = (tmp_path / "_delta_log" / f"{version:020d}.json" for version in (0, 1))
    first.write_text("\n".join(reversed(first.read_text().splitlines())))
    second.write_text('{"txn":{"appId":"any","version":1}}\n')
    log = DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    assert marks(list(log.commits(NO_SPARK))) == [None, 1]


def test_torn_commit_breaks_the_chain(tmp_path: Path) -> None:
    write_log(tmp_path, history(1).commits)
    file = tmp_path / "_delta_log" / f"{0:020d}.json"
    file.write_text(file.read_text()[:40])
    log = DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    with pytest.raises(BrokenChainError, match="is not a Delta commit"):
        list(log.commits(NO_SPARK))


def test_history_of_the_kit_has_its_key() -> None:
    found = list(DeltaLog("t").commits(FakeHistorySpark(history(1).commits)))
    assert found[0].mark is not None
    assert found[0].mark.link.key == KEY
