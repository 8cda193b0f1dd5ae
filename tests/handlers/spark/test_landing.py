from __future__ import annotations

import os
from pathlib import Path

import pytest

from sarameya import TopicPartition
from sarameya_handlers import LandingError
from sarameya_handlers.spark.landing import land
from sarameya_handlers.spark.table import Landing
from tests.handlers.kit import batch
from tests.handlers.spark.kit import FakeFrame, FakeSpark, FakeTable

LANDING = Landing(partition=TopicPartition("orders", 0), from_offset=0, to_offset=3, rows=3, attempt="a1")
RECORDS = batch(0, 3).to_arrow()


async def test_staged_file_is_gone_after_a_landing(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    assert land(FakeSpark(), lambda: None, records=RECORDS, landing=LANDING, table=table, transform=None) == 3
    assert table.offsets == [[0, 1, 2]]
    assert os.listdir(tmp_path) == []


def test_landing_that_is_no_longer_wanted_is_not_appended(tmp_path: Path) -> None:
    class Unwanted(Exception):
        pass

    def checkpoint() -> None:
        raise Unwanted

    table = FakeTable(tmp_path)
    with pytest.raises(Unwanted):
        land(FakeSpark(), checkpoint, records=RECORDS, landing=LANDING, table=table, transform=None)
    assert table.landings == []
    assert list(tmp_path.iterdir()) == []


def test_staged_file_that_spark_takes_for_hidden_is_noticed_before_the_append(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    with pytest.raises(LandingError, match="Spark does not see the staged file"):
        land(FakeSpark(sees_files=False), lambda: None, records=RECORDS, landing=LANDING, table=table, transform=None)
    assert table.landings == []


@pytest.mark.parametrize(("made", "told"), [(5, "int"), (None, "NoneType"), ([], "list")])
def test_transform_that_returns_no_frame_is_told_before_the_append(tmp_path: Path, made: object, told: str) -> None:
    table = FakeTable(tmp_path)
    with pytest.raises(LandingError, match=f"transform must return a DataFrame, not {told}"):
        land(FakeSpark(), lambda: None, records=RECORDS, landing=LANDING, table=table, transform=lambda _: made)
    assert table.landings == []
    assert list(tmp_path.iterdir()) == []


async def test_transform_makes_the_frame_that_is_appended(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)

    def last(frame: FakeFrame) -> FakeFrame:
        return FakeFrame(frame.table.slice(2))

    assert land(FakeSpark(), lambda: None, records=RECORDS, landing=LANDING, table=table, transform=last) == 1
    assert table.offsets == [[2]]
