from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sarameya_handlers import LandingError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sink.flush import flush, open_table, read_links
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Phase, Shape
from tests.handlers.kit import batch
from tests.handlers.spark.kit import FakeFrame, FakeSpark, FakeTable

KEY = ChainKey("sarameya", "orders", 0)
LINK = Link(key=KEY, number=1, from_offset=0, to_offset=3, attempt="a1", origin=Origin(group="flights"))
RECORDS = batch(0, 3).to_arrow()


def ignore_phase(phase: Phase, landings: Sequence[Landing]) -> None: ...


def run_flush(
    table: FakeTable, *, transform: Any = None, spark: Any = None, check: Any = lambda: None, **more: Any
) -> None:
    options = {
        "pending": [PendingLink(LINK, RECORDS)],
        "shape": Shaping(transform=transform),
        "on_phase": ignore_phase,
        **more,
    }
    flush(spark or FakeSpark(), check, table=table, **options)


async def test_flush_appends_its_records_and_removes_staged_files(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    run_flush(table)
    assert table.offsets == [[0, 1, 2]]
    assert os.listdir(tmp_path) == []


async def test_phases_are_reported_in_order(tmp_path: Path) -> None:
    phases: list[tuple[Phase, list[str]]] = []
    run_flush(
        FakeTable(tmp_path), on_phase=lambda phase, landings: phases.append((phase, [str(one) for one in landings]))
    )
    names = [str(LINK)]
    assert phases == [(Phase.STAGED, names), (Phase.WRITTEN, names), (Phase.LINKED, names)]


async def test_link_without_records_stages_nothing(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    run_flush(table, pending=[PendingLink(LINK, None)])
    assert [one.staged for one in table.landings] == [None]
    assert table.offsets == [[]]


def test_abandoned_flush_is_not_appended(tmp_path: Path) -> None:
    class Abandoned(Exception):
        pass

    def check() -> None:
        raise Abandoned

    table = FakeTable(tmp_path)
    with pytest.raises(Abandoned):
        run_flush(table, check=check)
    assert table.landings == []
    assert list(tmp_path.iterdir()) == []


def test_staged_file_hidden_from_spark_stops_the_append(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    with pytest.raises(LandingError, match="Spark does not see the staged file"):
        run_flush(table, spark=FakeSpark(sees_files=False))
    assert table.chains == {}


@pytest.mark.parametrize(("made", "expected"), [(5, "int"), (None, "NoneType"), ([], "list")])
def test_transform_without_a_frame_stops_the_append(tmp_path: Path, made: object, expected: str) -> None:
    table = FakeTable(tmp_path)
    with pytest.raises(LandingError, match=f"transform must return a DataFrame, not {expected}"):
        run_flush(table, transform=lambda _: made)
    assert table.chains == {}
    assert list(tmp_path.iterdir()) == []


async def test_frame_of_the_transform_is_appended(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    run_flush(table, transform=lambda frame: FakeFrame(frame.table.slice(2)))
    assert table.offsets == [[2]]


@pytest.mark.parametrize(("adopts", "codec"), [(True, "SNAPPY"), (False, "UNCOMPRESSED")])
async def test_staged_file_is_compressed_only_if_adopted(tmp_path: Path, adopts: bool, codec: str) -> None:
    class Table(FakeTable):
        def adopts(self, shape: Shape) -> bool:
            return adopts

    compressions = []

    def record_compression(phase: Phase, landings: Sequence[Landing]) -> None:
        if phase is Phase.STAGED and (staged := landings[0].staged):
            compressions.append(pq.read_metadata(staged.path).row_group(0).column(0).compression)

    run_flush(Table(tmp_path), on_phase=record_compression)
    assert compressions == [codec]


async def test_links_of_each_chain_are_read_from_a_number(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    run_flush(table)
    other = ChainKey("sarameya", "orders", 1)
    find = partial(read_links, FakeSpark(), lambda: None, table=table)
    links = find(since={KEY: 1, other: 1})
    assert [[link.attempt for link in links[key]] for key in (KEY, other)] == [["a1"], []]
    assert find(since={KEY: 2}) == {KEY: []}


def test_opening_removes_only_staged_files_older_than_a_day(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    old, young, others = (tmp_path / f"{name}.parquet" for name in ("a" * 32, "b" * 32, "of-somebody-else"))
    for path, age in ((old, 24 * 3600 + 60), (young, 24 * 3600 - 60), (others, 24 * 3600 + 60)):
        path.touch()
        os.utime(path, (0, 1e9 - age))
    open_table(FakeSpark(), lambda: None, table=table, now=1e9)
    assert sorted(tmp_path.iterdir()) == [young, others]


def test_fault_61_opening_keeps_the_summary_of_a_delta_log(tmp_path: Path) -> None:
    """A Delta table with a staging directory of its own keeps the summary there."""
    for name in ("heads.json", ".put-0123"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    open_table(FakeSpark(), lambda: None, table=FakeTable(tmp_path), now=1e9)
    assert os.listdir(tmp_path) == ["heads.json"]
