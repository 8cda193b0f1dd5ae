"""The cost of finding the heads of chains in a Delta table's log does not grow with the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya_handlers.landing.errors import BrokenChainError, ChainError
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history import chains
from sarameya_handlers.spark.delta.history import growth as growth_module
from sarameya_handlers.spark.delta.history import log as log_module
from sarameya_handlers.spark.delta.history import summary as summary_module
from sarameya_handlers.spark.delta.history.chains import LAST, ChainHistory
from sarameya_handlers.spark.delta.history.checkpoints import commit_file, transactions_in
from sarameya_handlers.spark.delta.history.commits import CommitMark, DeltaCommit
from sarameya_handlers.spark.delta.history.growth import growth_of
from sarameya_handlers.spark.delta.history.log import DeltaLog
from sarameya_handlers.spark.delta.history.summary import RENEWAL_INTERVAL, SummarizedLog
from tests.handlers.file_calls import FileCalls
from tests.handlers.spark.delta.kit import KEY, OTHER, FakeHistorySpark, History, link, write_log

NO_SPARK: Any = None
NEW = ChainKey("sink", "orders", 7)
SHORT, LONG = 300, 3000


@pytest.fixture(autouse=True)
def short_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the numbers of commits that are kept in memory and read without a summary, so that these logs are long."""
    monkeypatch.setattr(log_module, "_MAX_CACHED", 200)
    monkeypatch.setattr(summary_module, "_MAX_READ", 200)


def table(root: Path, count: int, *, checkpoint: bool = True) -> History:
    """Write a log in which one chain has landed once, long ago, and another one in each commit since."""
    links = [link(1, OTHER), *(link(number) for number in range(1, count))]
    commits = [DeltaCommit(at, f"stamp {at}", mark=CommitMark(one, at - 1, 0)) for at, one in enumerate(links)]
    history = History(commits[::-1])
    write_log(root, history.commits)
    (root / "_sarameya").mkdir()
    if checkpoint:
        write_checkpoint(root, count - 10, {})
    return history


def write_checkpoint(root: Path, version: int, txns: dict[str, int]) -> None:
    rows = [{"txn": {"appId": app, "version": number}} for app, number in txns.items()]
    schema = pa.schema([("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())]))])
    pq.write_table(
        pa.Table.from_pylist([*rows, {"txn": None}], schema),
        root / "_delta_log" / f"{version:020d}.checkpoint.parquet",
    )
    (root / "_delta_log" / "_last_checkpoint").write_text(json.dumps({"version": version, "size": len(rows)}))


def opened(root: Path) -> SummarizedLog:
    log = DeltaLog("t")
    log.read_from(LocalStore(root))
    summarize = SummarizedLog(log)
    summarize.store_in(LocalStore(root), "_sarameya/heads.json")
    return summarize


def numbers(found: dict[ChainKey, ChainHistory]) -> dict[ChainKey, int]:
    return {key: chain.links[-1].number for key, chain in found.items() if chain.links}


def heads(log: SummarizedLog, *keys: ChainKey) -> dict[ChainKey, ChainHistory]:
    return log.search(NO_SPARK, dict.fromkeys(keys, LAST))


@pytest.mark.parametrize("checkpoint", [True, False], ids=["checkpoint", "no checkpoint"])
def test_fault_61_delta_start_reads_few_files_at_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool
) -> None:
    roots = [tmp_path / "short", tmp_path / "long"]
    for root, count in zip(roots, (SHORT, LONG), strict=True):
        table(root, count, checkpoint=checkpoint)
        heads(opened(root), KEY, OTHER, NEW)  # a service ran before
    calls = FileCalls(monkeypatch)
    few, many = (calls.of(lambda root=root: heads(opened(root), KEY, OTHER, NEW)) for root in roots)  # type: ignore[misc]
    assert few < 100
    assert many <= few + 10
    found = heads(opened(roots[1]), KEY, OTHER, NEW)
    assert numbers(found) == {KEY: LONG - 1, OTHER: 1}
    assert all(chain.is_whole for chain in found.values())


def test_fault_61_delta_search_of_a_quiet_chain_reads_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain's last link is older than the commits kept in memory."""
    calls = FileCalls(monkeypatch)
    history = table(tmp_path, SHORT)
    log = opened(tmp_path)
    heads(log, OTHER, NEW)
    assert calls.of(lambda: heads(log, OTHER, NEW)) < 10
    history.landed(2, OTHER)
    write_log(tmp_path, history.commits[:1])
    assert calls.of(lambda: heads(log, OTHER, NEW)) < 10
    assert numbers(heads(log, OTHER, NEW)) == {OTHER: 2}


def test_fault_61_delta_newest_version_needs_no_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, SHORT)
    calls = FileCalls(monkeypatch)

    def newest() -> None:
        log = DeltaLog("t")
        log.read_from(LocalStore(tmp_path))
        assert log.newest(NO_SPARK) == SHORT - 1

    assert calls.of(newest) < 20


def test_fault_61_delta_forgotten_chains_are_in_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, SHORT)
    write_checkpoint(tmp_path, SHORT - 10, {"sarameya:sink/orders/1": 1, "other": 3})
    log = DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    calls = FileCalls(monkeypatch)
    found: dict[str, int] = {}
    assert calls.of(lambda: found.update(log.transactions(NO_SPARK, "nowhere"))) < 40
    assert found == {"sarameya:sink/orders/1": 1}


def test_summary_is_renewed_as_the_log_grows(tmp_path: Path) -> None:
    history = table(tmp_path, 10)
    log = opened(tmp_path)
    heads(log, KEY)
    file = tmp_path / "_sarameya" / "heads.json"
    assert not file.exists(), "a short log is read quickly"
    for number in range(10, RENEWAL_INTERVAL + 20):
        history.landed(number)
        write_log(tmp_path, history.commits[:1])
        heads(log, KEY)
    assert json.loads(file.read_text())["last"]["version"] >= RENEWAL_INTERVAL - 1


def test_search_does_not_read_a_long_history_for_a_summary() -> None:
    history = History(
        [DeltaCommit(at, f"stamp {at}", mark=CommitMark(link(at + 1), at - 1, 0)) for at in range(5000)][::-1]
    )
    spark: Any = FakeHistorySpark(history.commits)
    found = SummarizedLog(DeltaLog("t")).search(spark, {KEY: LAST})
    assert numbers(found) == {KEY: 5000}
    assert spark.limits == [64]


def test_summary_of_a_recreated_table_is_ignored(tmp_path: Path) -> None:
    table(tmp_path, SHORT)
    heads(opened(tmp_path), KEY, NEW)
    recreated = [DeltaCommit(at, "", mark=CommitMark(link(at + 1, NEW), at - 1, 0)) for at in range(SHORT)]
    write_log(tmp_path, recreated)
    assert numbers(heads(opened(tmp_path), KEY, OTHER, NEW)) == {NEW: SHORT}


@pytest.mark.parametrize("text", ["", "{", '{"last": 1}', "[]"])
def test_unreadable_summary_is_ignored(tmp_path: Path, text: str) -> None:
    table(tmp_path, SHORT)
    heads(opened(tmp_path), NEW)
    (tmp_path / "_sarameya" / "heads.json").write_text(text)
    assert numbers(heads(opened(tmp_path), KEY, OTHER)) == {KEY: SHORT - 1, OTHER: 1}


def test_unwritable_summary_is_ignored(tmp_path: Path) -> None:
    table(tmp_path, SHORT)
    log = opened(tmp_path)
    (tmp_path / "_sarameya").rmdir()
    assert numbers(heads(log, OTHER, NEW)) == {OTHER: 1}
    assert numbers(heads(log, OTHER, NEW)) == {OTHER: 1}


def test_summary_ends_at_a_unique_commit() -> None:
    history = history_without_timestamps()
    summary = chains.summarize(history.commits)
    assert summary is not None
    assert summary.last.version == 1


def history_without_timestamps() -> History:
    """Return a history whose newest commits have no timestamp; some writers omit it."""
    history = History()
    history.landed(1)
    history.landed(2)
    untimed = [DeltaCommit(version, "") for version in (3, 2)]
    return History([*untimed, *history.commits])


@pytest.mark.parametrize("back", [5, 220], ids=["to after the summary", "to before the summary"])
def test_summary_equals_the_log_after_a_restore(tmp_path: Path, back: int) -> None:
    history = table(tmp_path, SHORT)
    heads(opened(tmp_path), NEW)
    for number in range(SHORT, SHORT + 20):
        history.landed(number)
    history.restored(history.newest - back)
    write_log(tmp_path, history.commits[:21])
    keys = dict.fromkeys((KEY, OTHER, NEW), LAST)
    by_log = SummarizedLog(DeltaLog("t")).search(FakeHistorySpark(history.commits), keys)
    found = opened(tmp_path).search(NO_SPARK, keys)
    assert found == by_log
    assert found[NEW].term == history.newest


def test_summary_disconnected_from_the_log_is_ignored(tmp_path: Path) -> None:
    """The commits between the summary and the rest of the log were cleaned up; their content is unknown."""
    history = table(tmp_path, SHORT)
    heads(opened(tmp_path), NEW)
    history.landed(2, OTHER)
    for number in range(SHORT, SHORT + 20):
        history.landed(number)
    write_log(tmp_path, history.commits[:21])
    for version in range(SHORT + 10):
        (tmp_path / commit_file(version)).unlink()
    found = heads(opened(tmp_path), KEY, OTHER)
    assert numbers(found) == {KEY: SHORT + 19}
    assert not found[OTHER].is_whole


@pytest.mark.parametrize("text", ["", "{", '{"version": 5000}', '{"version": -1}', '{"version": "1"}', "\xff"])
def test_invalid_last_checkpoint_is_ignored(tmp_path: Path, text: str) -> None:
    table(tmp_path, 30)
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text(text)
    log = DeltaLog("t")
    log.read_from(LocalStore(tmp_path))
    assert log.newest(NO_SPARK) == 29
    assert transactions_in(LocalStore(tmp_path), 29) is None


@pytest.mark.parametrize("content", [b"", b"PAR1 torn", b"PAR1" + b"\xff" * 64 + (32).to_bytes(4, "little") + b"PAR1"])
def test_unreadable_checkpoint_is_left_to_spark(tmp_path: Path, content: bytes) -> None:
    table(tmp_path, 30)
    (tmp_path / "_delta_log" / f"{20:020d}.checkpoint.parquet").write_bytes(content)
    assert transactions_in(LocalStore(tmp_path), 29) is None


def test_torn_commit_is_left_to_spark(tmp_path: Path) -> None:
    table(tmp_path, 30)
    (tmp_path / commit_file(25)).write_bytes(b'{"txn":{"appId":"sarameya:')
    assert transactions_in(LocalStore(tmp_path), 29) is None


def test_multipart_checkpoint_is_read(tmp_path: Path) -> None:
    table(tmp_path, 30)
    log = tmp_path / "_delta_log"
    for part, apps in enumerate(({"sarameya:a/t/0": 3}, {"sarameya:a/t/1": 4, "other": 1}), start=1):
        write_checkpoint(tmp_path, 20, apps)
        (log / f"{20:020d}.checkpoint.parquet").rename(log / f"{20:020d}.checkpoint.{part:010d}.{2:010d}.parquet")
    (log / "_last_checkpoint").write_text('{"version": 20, "size": 4, "parts": 2}')
    assert transactions_in(LocalStore(tmp_path), 29) == {"sarameya:a/t/0": 3, "sarameya:a/t/1": 4}


def test_checkpoint_without_transactions_has_none(tmp_path: Path) -> None:
    table(tmp_path, 30)
    file = tmp_path / "_delta_log" / f"{20:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"add": [{"path": "x"}]}), file)
    assert transactions_in(LocalStore(tmp_path), 29) == {}


def test_summary_finds_a_link_unaware_of_a_restore(tmp_path: Path) -> None:
    history = table(tmp_path, SHORT)
    history.restored(SHORT - 2)
    write_log(tmp_path, history.commits[:1])
    heads(opened(tmp_path), NEW)
    history.landed(SHORT, seen=SHORT - 1)
    write_log(tmp_path, history.commits[:1])
    with pytest.raises(BrokenChainError, match="by a member that did not know"):
        heads(opened(tmp_path), KEY)


def test_links_before_the_summary_are_read_from_the_log(tmp_path: Path) -> None:
    table(tmp_path, SHORT)
    log = opened(tmp_path)
    heads(log, NEW)
    found = log.search(NO_SPARK, {KEY: SHORT - 250, OTHER: 1})
    assert [link.number for link in found[KEY].links] == list(range(SHORT - 250, SHORT))
    assert numbers(found)[OTHER] == 1


def random_history(random: Random) -> History:
    """Return links of two chains by up-to-date and late writers, foreign commits, and RESTOREs."""
    history = History()
    for _ in range(random.randrange(1, 25)):
        match random.choice("llllor"):
            case "l":
                key = random.choice((KEY, OTHER))
                known = history.commits[random.choice((0, 0, 0, 0, 1, 3)) :]
                found = chains.search(known, {key: LAST})[key]
                number = found.links[-1].number + 1 if found.links else 1
                history.landed(number, key, seen=found.seen, term=found.term)
            case "o":
                history.other()
            case "r" if history.newest >= 0:
                history.restored(random.randrange(history.newest + 1))
    return history


def outcome(search: Callable[[], object]) -> object:
    try:
        return search()
    except ChainError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(20))
def test_search_is_the_same_with_any_summary(seed: int) -> None:
    random = Random(seed)
    compared = 0
    while compared < 200:
        try:
            history = random_history(random)
            at = random.randrange(len(history.commits) + 1)
            earlier = random.randrange(at, len(history.commits) + 1)
            before = chains.summarize(history.commits[earlier:])
            summary = chains.summarize(history.commits[at:], before)
        except ChainError:
            continue
        if summary is None:
            continue
        since = {key: random.choice((LAST, 1, 3)) for key in random.sample((KEY, OTHER, NEW), random.randrange(1, 4))}
        assert chains.summarize(history.commits[at:]) == summary
        stored = msgspec.json.decode(msgspec.json.encode(summary), type=chains.ChainSummary)
        with_summary = outcome(partial(chains.search, history.commits, since, stored))
        without_summary = outcome(partial(chains.search, history.commits, since))
        assert with_summary == without_summary
        compared += 1


def test_fault_61_delta_warns_of_a_missing_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_module, "LONG_SINCE_CHECKPOINT", 100)
    table(tmp_path, SHORT, checkpoint=False)
    assert "the newest 300 commits of its log are in no checkpoint" in growth_of(LocalStore(tmp_path), SHORT - 1, "t")
    write_checkpoint(tmp_path, SHORT - 150, {})
    assert "the newest 149 commits" in growth_of(LocalStore(tmp_path), SHORT - 1, "t")
    write_checkpoint(tmp_path, SHORT - 10, {})
    assert growth_of(LocalStore(tmp_path), SHORT - 1, "t") == ""


def test_fault_61_delta_warns_of_a_long_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_module, "LONG_LOG", 200)
    table(tmp_path, SHORT)
    warning = growth_of(LocalStore(tmp_path), SHORT - 1, "delta.`/lake/t`")
    assert "its log keeps 300 commits" in warning
    assert "ALTER TABLE delta.`/lake/t` SET TBLPROPERTIES ('delta.logRetentionDuration'" in warning
    for version in range(100):
        (tmp_path / commit_file(version)).unlink()
    calls = FileCalls(monkeypatch)
    assert calls.of(lambda: growth_of(LocalStore(tmp_path), SHORT - 1, "t")) < 30
    assert growth_of(LocalStore(tmp_path), SHORT - 1, "t") == ""
