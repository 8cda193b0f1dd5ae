"""Commits of delta-rs: what they say, of two which one wins, and which tables are left to Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import Kind
from sarameya_handlers.spark.delta import adopting
from sarameya_handlers.spark.delta.adopting import Adopter, CommitError
from sarameya_handlers.spark.delta.commits import Mark, app_id, txn_version
from sarameya_handlers.spark.tables.table import Landing
from tests.handlers.spark.delta.adopted import chain, create, nullable, staged
from tests.handlers.spark.delta.kit import KEY, link

ROOT = Path(__file__).parents[4]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create(tmp_path / "a table: 100%")


def mark(of: Any, *, seen: int = 0, term: int = 0) -> Mark:
    return Mark(of, seen, term)


def offsets(root: Path) -> list[int]:
    return sorted(DeltaTable(root).to_pyarrow_table(columns=["offset"])["offset"].to_pylist())


def test_links_and_their_rows_are_read_back(root: Path) -> None:
    first, gap, second = link(1), link(2, kind=Kind.GAP, reason="gone", rows=0), link(3)
    for one in (first, gap, second):
        landing = Landing(link=one, staged=None) if one.kind is Kind.GAP else staged(root, one)
        assert Adopter(root).append(landing, mark(one))
        assert landing.staged is None or not landing.staged.exists()
    found = chain(root)
    assert [(one.number, one.attempt, one.rows) for one in found.links] == [
        (1, first.attempt, 10),
        (2, gap.attempt, 0),
        (3, second.attempt, 10),
    ]
    assert found.links[0].size_bytes == sorted(root.glob("part-*.parquet"))[0].stat().st_size
    assert offsets(root) == [*range(10), *range(20, 30)]
    table = DeltaTable(root)
    assert table.transaction_version(app_id(KEY)) == 3
    assert pa.table(table.get_add_actions(flatten=True))["max.offset"].to_pylist() == [29, 9]


def test_link_that_the_table_has_is_not_tried(root: Path) -> None:
    Adopter(root).append(staged(root, link(1)), mark(link(1)))
    late = staged(root, link(1, attempt="f" * 32))
    assert Adopter(root).append(late, mark(late.link))
    assert [one.attempt for one in chain(root).links] == [link(1).attempt]
    assert late.staged is not None
    assert late.staged.exists(), "it is not moved for nothing"


def test_number_of_a_later_term_is_above_all_of_older_ones(root: Path) -> None:
    for number in (1, 2, 3):
        Adopter(root).append(staged(root, link(number)), mark(link(number)))
    again = link(2, attempt="e" * 32)
    Adopter(root).append(staged(root, again), mark(again, term=4))
    assert DeltaTable(root).transaction_version(app_id(KEY)) == txn_version(4, 2)


def test_of_two_that_looked_at_the_same_time_one_wins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Adopter(root).append(staged(root, link(1)), mark(link(1)))
    before = [DeltaTable(root), DeltaTable(root)]
    monkeypatch.setattr(adopting, "_opened", lambda _: before.pop())
    for attempt in ("a" * 32, "b" * 32):
        one = link(2, attempt=attempt)
        assert Adopter(root).append(staged(root, one), mark(one)), "which is silent on who has won"
    assert [one.attempt for one in chain(root).links] == [link(1).attempt, "a" * 32]
    assert offsets(root) == list(range(20))


def test_commits_of_others_in_between_do_not_matter(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = DeltaTable(root)
    other = DeltaTable(root)
    for version in (1, 2, 3):
        other.create_write_transaction(
            [],
            "append",
            other.schema(),
            commit_properties=CommitProperties(app_transactions=[Transaction("x", version)]),
        )
        other.update_incremental()
    monkeypatch.setattr(adopting, "_opened", lambda _: before)
    assert Adopter(root).append(staged(root, link(1)), mark(link(1)))
    assert [one.number for one in chain(root).links] == [1]
    assert DeltaTable(root).version() == 4


def test_processes_that_race_for_links_each_win_some_and_none_is_there_twice(root: Path) -> None:
    links = 200
    command = [sys.executable, "-m", "tests.handlers.spark.delta.adopted", str(root), str(links)]
    racers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [racer.communicate(timeout=300)[0].splitlines() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    found = chain(root).links
    assert [one.number for one in found] == list(range(1, links + 1))
    winners = {one.number: one.attempt for one in found}
    tried = Counter[int]()
    won = []
    for lines in said:
        for number, mine, winner in (line.split() for line in lines):
            assert winner == winners[int(number)]
            tried[int(number)] += 1
            won += [mine] if mine == winner else []
    assert sorted(won) == sorted(winners.values())
    contested = sum(count > 1 for count in tried.values())
    print(f"{links} links, {contested} of them tried by both")
    assert contested > 0.05 * links, "or it was no race"
    assert offsets(root) == list(range(10 * links))


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (None, {"partition_by": ["topic"]}),
        (nullable(kafka_schema()).append(pa.field("more", pa.string())), {}),
        (nullable(kafka_schema()).set(4, pa.field("offset", pa.int64(), nullable=False)), {}),
        (nullable(kafka_schema()).set(4, pa.field("offset", pa.int32())), {}),
    ],
    ids=["partitioned", "more columns", "not null", "another type"],
)
def test_table_that_asks_for_more_is_left_to_spark(tmp_path: Path, schema: pa.Schema, options: dict[str, Any]) -> None:
    root = create(tmp_path / "table", schema=schema, **options)
    landing = staged(root, link(1))
    assert not Adopter(root).append(landing, mark(link(1)))
    assert landing.staged is not None
    assert landing.staged.exists()
    assert DeltaTable(root).version() == 0


@pytest.mark.parametrize(
    ("protocol", "metadata"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]}, {}),
        ({"minReaderVersion": 1, "minWriterVersion": 4}, {}),
        ({"minReaderVersion": 1, "minWriterVersion": 2}, {"delta.invariants": '{"expression": {"expression": "1"}}'}),
    ],
    ids=["feature", "version", "invariant"],
)
def test_table_of_which_writers_must_know_more_is_left_to_spark(
    root: Path, protocol: dict[str, Any], metadata: dict[str, str]
) -> None:
    log = root / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][4]["metadata"] = metadata
            action["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, actions)))
    assert not Adopter(root).append(staged(root, link(1)), mark(link(1)))
    assert DeltaTable(root).version() == 0


def test_table_with_a_constraint_is_left_to_spark(root: Path) -> None:
    DeltaTable(root).alter.add_constraint({"few": "offset < 5"})
    assert not Adopter(root).append(staged(root, link(1)), mark(link(1)))
    assert DeltaTable(root).version() == 1


def test_table_that_delta_rs_cannot_read_is_left_to_spark(root: Path) -> None:
    (root / "_delta_log" / f"{0:020}.json").write_text('{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}')
    assert not Adopter(root).append(staged(root, link(1)), mark(link(1)))


def test_commit_that_fails_passes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DeltaError("the disk is full")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fail)
    with pytest.raises(CommitError, match=r"delta-rs cannot commit to .*: the disk is full") as raised:
        Adopter(root).append(staged(root, link(1)), mark(link(1)))
    assert raised.value.passes
