"""Commits without Spark: their content, races, and the commits that are left to Spark."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pyarrow.parquet as pq
import pytest

from sarameya_handlers import LandingError
from sarameya_handlers.landing import files
from sarameya_handlers.landing.errors import BrokenChainError, UnansweredError
from sarameya_handlers.landing.links import Kind
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.direct_commits import CommitOutcome, DirectCommitter, commit_lock
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.history.commits import CommitMark, app_id, txn_version
from sarameya_handlers.spark.delta.row_files import RowFile, record_columns, staged_rows
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing
from tests.handlers.spark.delta.direct_commit_process import (
    adopt,
    chain,
    commit,
    create,
    log_of,
    offsets,
    plain,
    read_mark,
    staged,
)
from tests.handlers.spark.delta.kit import KEY, link

ROOT = Path(__file__).parents[4]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create(tmp_path / "a table: 100%")


def test_links_and_rows_are_read_back(root: Path) -> None:
    first, gap, second = link(1), link(2, kind=Kind.GAP, reason="gone", rows=0), link(3)
    for one in (first, gap, second):
        landing = Landing(link=one, staged=None) if one.kind is Kind.GAP else staged(root, one)
        assert adopt(root, landing) is CommitOutcome.MADE
    found = chain(root)
    assert [(one.number, one.attempt, one.rows) for one in found.links] == [
        (1, first.attempt, 10),
        (2, gap.attempt, 0),
        (3, second.attempt, 10),
    ]
    assert found.links[0].size_bytes == sorted(root.glob("part-*.parquet"))[0].stat().st_size
    assert offsets(root) == [*range(10), *range(20, 30)]
    actions = [json.loads(line) for line in (root / commit_file(3)).read_text().splitlines()]
    assert [*map(next, map(iter, actions))] == ["commitInfo", "txn", "add"]
    assert actions[1]["txn"]["appId"] == app_id(KEY)
    assert actions[1]["txn"]["version"] == 3
    assert json.loads(actions[2]["add"]["stats"])["numRecords"] == 10


def test_taken_link_is_not_attempted(root: Path) -> None:
    adopt(root, staged(root, link(1)))
    late = staged(root, link(1, attempt="f" * 32))
    assert adopt(root, late) is CommitOutcome.LOST
    assert [one.attempt for one in chain(root).links] == [link(1).attempt]
    assert offsets(root) == list(range(10))
    assert len([*root.glob("part-*")]) == 1, "the losing attempt leaves nothing"


def test_txn_version_of_a_later_term_is_higher(root: Path) -> None:
    again = link(2)
    adopt(root, staged(root, link(1)))
    adopt(root, staged(root, again), read_mark=lambda: CommitMark(again, 1, 4))
    txn = json.loads((root / commit_file(2)).read_text().splitlines()[1])["txn"]
    assert txn["version"] == txn_version(4, 2)


def test_one_of_two_simultaneous_attempts_wins(root: Path) -> None:
    adopt(root, staged(root, link(1)))
    own, other = link(2, attempt="a" * 32), link(2, attempt="b" * 32)
    log = log_of(root)

    def overtaken() -> None:
        if not any(one.number == 2 for one in chain(root).links):
            assert adopt(root, staged(root, other)) is CommitOutcome.MADE

    late = staged(root, own)
    assert adopt(root, late, read_mark=lambda: read_mark(log, own), on_ready=overtaken) is CommitOutcome.LOST
    assert [one.attempt for one in chain(root).links] == [link(1).attempt, other.attempt]
    assert offsets(root) == list(range(20))
    assert len([*root.glob("part-*")]) == 2


def test_link_is_committed_after_commits_of_other_writers(root: Path) -> None:
    calls = []

    def others() -> None:
        if not calls:
            for version in (1, 2, 3):
                commit(root, version, {"txn": {"appId": "x", "version": version}})
        calls.append(True)

    assert adopt(root, staged(root, link(1)), on_ready=others) is CommitOutcome.MADE
    assert len(calls) == 2
    found = chain(root)
    assert [one.number for one in found.links] == [1]
    assert found.seen == 4


def test_restore_in_between_stops_the_link(root: Path) -> None:
    for number in (1, 2):
        adopt(root, staged(root, link(number)))
    restored = {"timestamp": 5, "operation": "RESTORE", "operationParameters": {"version": "1", "timestamp": "null"}}

    def restore() -> None:
        if not (root / commit_file(3)).exists():
            (root / commit_file(3)).write_text(json.dumps({"commitInfo": restored}, separators=(",", ":")))

    late = link(3)
    with pytest.raises(AssertionError):  # of `read_mark`: link 2 is undone
        adopt(root, staged(root, late), on_ready=restore)
    assert [one.number for one in chain(root).links] == [1]
    assert not (root / commit_file(4)).exists()


def test_racing_processes_append_each_link_once(root: Path) -> None:
    links = 300
    command = [sys.executable, "-m", "tests.handlers.spark.delta.direct_commit_process", str(root), str(links)]
    racers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [racer.communicate(timeout=300)[0].splitlines() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    found = chain(root).links
    assert [one.number for one in found] == list(range(1, links + 1))
    winners = {one.number: one.attempt for one in found}
    tried = Counter[int]()
    for number, mine, outcome in (line.split() for lines in outputs for line in lines):
        tried[int(number)] += 1
        assert (outcome == "MADE") == (mine == winners[int(number)])
    shares = [sum(line.endswith("MADE") for line in lines) for lines in outputs]
    contested = sum(count > 1 for count in tried.values())
    print(f"{links} links, {contested} of them tried by both, won {shares}")
    assert contested > 0.05 * links, "otherwise there was no race"
    assert min(shares) > 0.02 * links
    assert offsets(root) == list(range(10 * links))
    assert len([*root.glob("part-*")]) == links


# -- commits that are left to Spark -----------------------------------------------------------------------------------


class CountingCommitter:
    """A committer of one table that counts how often the rules are loaded."""

    def __init__(self, root: Path, *answers: CommitRules | None) -> None:
        self._root = root
        self._committer = DirectCommitter(LocalStore(root))
        self._answers = list(answers)
        self.count = 0

    def land(self, number: int) -> CommitOutcome:
        one, log = link(number), log_of(self._root)
        landing = staged(self._root, one)
        rows, read = staged_rows(landing), partial(read_mark, log, one)
        return self._committer.append(landing, rows, read_mark=read, load_rules=self._load_rules, on_ready=lambda: None)

    def _load_rules(self) -> CommitRules | None:
        self.count += 1
        return self._answers.pop(0)


def test_table_with_new_rules_is_left_to_spark(root: Path) -> None:
    committer = CountingCommitter(root, plain(), None, plain())
    assert [committer.land(1), committer.land(2)] == [CommitOutcome.MADE] * 2
    assert committer.count == 1
    commit(root, 3, {"metaData": {"id": "any", "configuration": {"delta.constraints.few": "offset < 5"}}})
    assert [committer.land(3), committer.land(3)] == [CommitOutcome.LEFT_TO_SPARK] * 2
    assert committer.count == 2
    assert len([*root.glob("part-*")]) == 2, "the attempt leaves nothing"
    commit(root, 4, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    assert committer.land(3) is CommitOutcome.MADE


def test_rules_are_reloaded_after_a_log_cleanup(root: Path) -> None:
    loads, seen = list[int](), iter((1, 4))
    adopter, one = DirectCommitter(LocalStore(root)), link(1)

    def load() -> CommitRules:
        loads.append(1)
        return plain()

    for _ in range(2):  # versions 2 and 5; the log has no 3 and no 4
        landing = staged(root, attrs.evolve(one, attempt=uuid4().hex))
        mark, rows = CommitMark(landing.link, next(seen), 0), staged_rows(landing)
        made = adopter.append(landing, rows, read_mark=lambda mark=mark: mark, load_rules=load, on_ready=lambda: None)  # type: ignore[misc]
        assert made is CommitOutcome.MADE
    assert len(loads) == 2


def test_checkpoint_commit_is_left_to_spark(root: Path) -> None:
    for number in (1, 2):
        assert adopt(root, staged(root, link(number)), load_rules=partial(plain, 3)) is CommitOutcome.MADE
    assert adopt(root, staged(root, link(3)), load_rules=partial(plain, 3)) is CommitOutcome.LEFT_TO_SPARK
    commit(root, 3)
    assert adopt(root, staged(root, link(3)), load_rules=partial(plain, 3)) is CommitOutcome.MADE


def test_rows_of_other_columns_are_left_to_spark(root: Path) -> None:
    landing = staged(root, link(1))
    other = {"type": "struct", "fields": [{"name": "offset", "type": "integer", "nullable": True, "metadata": {}}]}
    assert adopt(root, landing, load_rules=lambda: CommitRules(columns=other)) is CommitOutcome.LEFT_TO_SPARK
    assert [*root.glob("part-*")] == []
    gap = Landing(link=link(1, kind=Kind.GAP, reason="gone", rows=0), staged=None)
    assert adopt(root, gap, load_rules=lambda: CommitRules(columns=other)) is CommitOutcome.MADE, "a gap has no rows"


def test_file_written_by_spark_is_moved_and_keeps_its_codec(root: Path) -> None:
    landing = staged(root, link(1))
    assert landing.staged is not None
    name = "_sarameya/landing/attempt/part-00000-0.c000.zstd.parquet"
    written = root / name
    written.parent.mkdir(parents=True)
    landing.staged.path.rename(written)
    outcome = DirectCommitter(LocalStore(root)).append(
        attrs.evolve(landing, staged=StagedFile(root / "gone")),
        RowFile(name, record_columns(), pq.read_metadata(written), written.stat().st_size),
        read_mark=partial(read_mark, log_of(root), landing.link),
        load_rules=plain,
        on_ready=lambda: None,
    )
    assert outcome is CommitOutcome.MADE
    assert not written.exists()
    assert [file.name[-18:] for file in root.glob("part-*")] == ["-c000.zstd.parquet"]
    assert offsets(root) == list(range(10))


def test_link_unknown_to_the_log_is_left_to_spark(root: Path) -> None:
    """Delta keeps transactions longer than the history."""
    assert (
        adopt(root, staged(root, link(1)), read_mark=lambda: CommitOutcome.LEFT_TO_SPARK) is CommitOutcome.LEFT_TO_SPARK
    )
    assert [*root.glob("part-*")] == []


def test_missing_table_is_left_to_spark(root: Path) -> None:
    (root / commit_file(0)).unlink()
    assert adopt(root, staged(root, link(1))) is CommitOutcome.LEFT_TO_SPARK
    assert [*(root / "_delta_log").iterdir()] == []


# -- failures ---------------------------------------------------------------------------------------------------------


def test_abandoned_link_leaves_no_data_file(root: Path) -> None:
    def abandon() -> None:
        raise BrokenChainError("nobody waits")

    landing = staged(root, link(1))
    with pytest.raises(BrokenChainError):
        adopt(root, landing, on_ready=abandon)
    assert chain(root).links == []
    assert [*root.glob("part-*")] == []
    assert landing.staged is not None
    assert landing.staged.path.exists()


@pytest.mark.parametrize("is_known", [True, False])
def test_data_file_of_an_unknown_outcome_stays(root: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool) -> None:
    kind = OSError if is_known else UnansweredError

    def fail(*_: object) -> bool:
        raise kind(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(LocalStore, "put_if_absent", fail)
    with pytest.raises(kind):
        adopt(root, staged(root, link(1)))
    assert len([*root.glob("part-*")]) == (0 if is_known else 1)


@pytest.mark.parametrize("swept", ["part-*", "_delta_log/.put-*"])
def test_link_swept_before_its_commit_is_not_committed(root: Path, monkeypatch: pytest.MonkeyPatch, swept: str) -> None:
    owner, name = (DirectCommitter, "_require") if swept == "part-*" else (os, "link")
    real = getattr(owner, name)
    slept = False

    def asleep(*arguments: Any) -> Any:
        nonlocal slept
        if owner is DirectCommitter or "_delta_log" in str(arguments[1]):
            slept = True
            for path in root.glob(swept):
                path.unlink()
        return real(*arguments)

    monkeypatch.setattr(owner, name, asleep)
    with pytest.raises(LandingError, match="a sweep removed its files while its process slept"):
        adopt(root, staged(root, link(1)))
    monkeypatch.undo()
    assert slept
    assert not (root / commit_file(1)).exists()
    assert [*root.glob("part-*")] == []


def test_disk_error_before_the_commit_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "sync", fail)
    with pytest.raises(OSError, match="No space"):
        adopt(root, staged(root, link(1)))
    assert [*root.glob("part-*")] == []


def test_lock_is_the_same_for_all_paths_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "table")
    assert commit_lock(LocalStore(tmp_path / "table")) is commit_lock(LocalStore(tmp_path / "alias"))
    assert commit_lock(LocalStore(tmp_path / "table")) is not commit_lock(LocalStore(tmp_path / "other"))
